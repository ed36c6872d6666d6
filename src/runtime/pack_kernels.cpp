#include "runtime/pack_kernels.h"

#include <algorithm>
#include <map>
#include <set>

#include "backend/backend.h"
#include "base/interrupt.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "runtime/kernel_cache.h"
#include "tessera/error.h"

namespace tessera {
namespace {

struct Wanted {
  int threads;
  std::vector<Problem> problems;
};

// The problems of each number of threads whose kernels are the most chosen ones.
std::vector<Wanted> most_chosen(std::vector<Wanted> wanted, const DispatcherOptions& options, double share) {
  std::vector<std::vector<std::string>> symbols;
  std::map<std::string, size_t> chosen;
  size_t choices = 0;
  for (const Wanted& w : wanted) {
    DispatcherOptions with_threads = options;
    with_threads.threads = w.threads;
    Dispatcher dispatcher(with_threads);
    const auto backend = make_backend(options.device, w.threads);
    symbols.emplace_back();
    for (const Problem& p : w.problems) {
      throw_if_interrupted();
      symbols.back().push_back(render(lower(p), dispatcher.select(p).config, backend->arch()).symbol);
      ++chosen[symbols.back().back()];
      ++choices;
    }
  }
  std::vector<std::pair<size_t, std::string>> order;
  for (const auto& [symbol, count] : chosen) order.emplace_back(count, symbol);
  std::sort(order.rbegin(), order.rend());
  std::set<std::string> kept;
  size_t served = 0;
  for (const auto& [count, symbol] : order) {
    if (static_cast<double>(served) >= share * static_cast<double>(choices)) break;
    kept.insert(symbol);
    served += count;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::vector<Problem> some;
    for (size_t p = 0; p < wanted[i].problems.size(); ++p) {
      if (kept.count(symbols[i][p])) some.push_back(wanted[i].problems[p]);
    }
    wanted[i].problems = std::move(some);
  }
  return wanted;
}

}  // namespace

void add_kernels(PackWriter& writer, std::span<const Problem> problems, const PackKernelsOptions& options,
                 const std::function<void(size_t, size_t, const std::string&)>& progress) {
  DispatcherOptions settled = options.dispatcher;
  settled.background = false;  // what goes into the pack is final
  std::vector<Wanted> wanted;
  const std::vector<int> own = {settled.threads};
  for (int threads : options.thread_counts.empty() ? own : options.thread_counts)
    wanted.push_back({threads, {problems.begin(), problems.end()}});
  if (options.share < 1) wanted = most_chosen(std::move(wanted), settled, options.share);
  KernelCache cache({.directory = settled.cache_dir, .packs = settled.packs});
  PackWriter more;
  for (const Wanted& w : wanted) {
    settled.threads = w.threads;
    Dispatcher dispatcher(settled);
    const auto errors = dispatcher.build(w.problems, options.jobs, progress);
    throw_if_interrupted();
    for (size_t i = 0; i < errors.size(); ++i) {
      if (errors[i].empty()) continue;
      try {
        dispatcher.get(w.problems[i]);  // for the error itself
      } catch (const Error& e) {
        throw Error(e.code(), e.what_happened(),
                    e.what_to_do() + (e.what_to_do().empty() ? "" : "; ") + "no pack was written");
      }
    }
    const auto backend = make_backend(settled.device, w.threads);
    std::set<std::string> seen;
    for (const Problem& p : w.problems) {
      const Choice& choice = dispatcher.get(p).choice();
      const Source source = render(lower(p), choice.config, backend->arch());
      if (seen.insert(source.symbol).second) more.add(source, cache.get_or_build(source, *backend).binary);
      if (options.decisions) {
        const ArchSpec& arch = backend->arch();
        more.decide({arch.name, arch.compute_units, to_string(p), to_string(choice.config)});
      }
    }
  }
  writer.add(std::move(more));
}

}  // namespace tessera
