#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/parallel.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "runtime/pack.h"
#include "tessera/error.h"
#include "tune/sweep_stages.h"

namespace tessera {
namespace {

struct Unit {
  const SweepProblem* problem;
  size_t config;
  size_t pairs;         // that need it
  std::string refused;  // why, by the compiler
};

struct Units {
  std::vector<Unit> all;
  std::unordered_map<std::string, size_t> index_of;           // by key
  std::map<const SweepProblem*, std::vector<size_t>> needed;  // for each of its todo()
};

Units units_of(const SweepStage& stage) {
  Units units;
  for (const SweepProblem* p : stage.ledger.problems()) {
    const GemmView view = lower(p->problem);
    for (size_t c : stage.ledger.todo(*p)) {
      const std::string key = unit_key(render(view, stage.ledger.plan().configs[c], stage.backend.arch()));
      const auto [found, fresh] = units.index_of.try_emplace(key, units.all.size());
      if (fresh) units.all.push_back({p, c, 0, {}});
      ++units.all[found->second].pairs;
      units.needed[p].push_back(found->second);
    }
  }
  return units;
}

// Those that most pairs need first; of a run that only compiles, its shard's.
std::vector<size_t> order_of(const Units& units, const SweepOptions& options) {
  std::vector<size_t> order(units.all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return units.all[x].pairs > units.all[y].pairs; });
  if (!options.measure) {
    // By the key, so that all agree on it whatever is done already.
    std::vector<size_t> part(units.all.size());
    for (const auto& [key, unit] : units.index_of) part[unit] = std::stoull(key.substr(0, 8), nullptr, 16);
    std::erase_if(order, [&](size_t unit) { return !in_shard(options, part[unit]); });
  }
  return order;
}

}  // namespace

size_t compile_stage(const SweepStage& stage) {
  SweepLedger& ledger = stage.ledger;
  const std::vector<KernelConfig>& configs = ledger.plan().configs;
  Units units = units_of(stage);
  const std::vector<size_t> order = order_of(units, stage.options);
  std::mutex mutex;
  size_t done = 0, compiled = 0;
  in_parallel(order.size(), stage.options.jobs, [&](size_t i) {
    if (stage.stop()) return;
    Unit& unit = units.all[order[i]];
    const KernelConfig& config = configs[unit.config];
    bool fresh = false;
    try {
      const Source source = render(lower(unit.problem->problem), config, stage.backend.arch());
      fresh = stage.cache.get_or_build(source, stage.backend).from == CacheResult::From::compiled;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::compile_failed) {
        unit.refused = e.what();
      } else if (!stop_requested()) {
        log(LogLevel::warn, e.what());  // worth another try when it is measured
      }
    }
    std::lock_guard lock(mutex);
    compiled += fresh;
    stage.progress({"compiling", ++done, order.size(), to_string(config)});
  });
  for (const SweepProblem* p : ledger.problems()) {
    const std::vector<size_t>& todo = ledger.todo(*p);
    std::vector<size_t> rest;
    std::vector<SweepRecord> records;
    for (size_t i = 0; i < todo.size(); ++i) {
      const std::string& refused = units.all[units.needed[p][i]].refused;
      if (refused.empty()) {
        rest.push_back(todo[i]);
      } else {
        records.push_back(ledger.blank(*p, todo[i], SweepOutcome::compile_failed, refused));
      }
    }
    ledger.keep(records);
    ledger.set_todo(*p, std::move(rest));
  }
  return compiled;
}

}  // namespace tessera
