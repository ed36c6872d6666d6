#include "gpu_configs.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <tuple>

#include "backend/cuda/nvrtc.h"
#include "base/parallel.h"
#include "codegen/render.h"
#include "core/family.h"
#include "model/model.h"
#include "space/space.h"

namespace tessera {

namespace {

// work(i) for each choice; what it throws is printed.
template <class F>
void on_all_cores(const std::vector<Choice>& choices, const F& work) {
  in_parallel(choices.size(), 0, [&](size_t i) {
    try {
      work(i);
    } catch (const std::exception& e) {
      std::printf("%s: %s\n", to_string(choices[i].config).c_str(), e.what());
    }
  });
}

// Compiles for an architecture of which there is no device.
class Compiler : public Backend {
 public:
  const ArchSpec& arch() const override { return find_arch("sm_90a"); }
  std::string compiler_identity() const override { return cuda::nvrtc_identity(); }
  Binary compile(const Source& source, const std::string& scratch) const override {
    return cuda::compile_nvrtc(source, scratch);
  }
  std::shared_ptr<Module> load(const Binary&) const override { return nullptr; }
  std::unique_ptr<Kernel> prepare(std::shared_ptr<Module>, const Problem&, const Choice&) const override {
    return nullptr;
  }
};

}  // namespace

Workshop::Workshop() : backend_(make_backend("cuda:0")) {}

std::vector<std::unique_ptr<Kernel>> Workshop::make(const Problem& p, const std::vector<Choice>& choices) {
  const GemmView v = lower(p);
  std::vector<std::unique_ptr<Kernel>> out(choices.size());
  on_all_cores(choices, [&](size_t i) {
    const Source source = render(v, choices[i].config, arch());
    std::shared_ptr<Module> module;
    {
      std::lock_guard lock(mutex_);
      module = modules_[source.symbol];
    }
    if (!module) module = backend_->load(cache_.get_or_build(source, *backend_).binary);
    {
      std::lock_guard lock(mutex_);
      modules_[source.symbol] = module;
    }
    out[i] = backend_->prepare(module, p, choices[i]);
  });
  return out;
}

void compile_ahead(const GemmView& v, const std::vector<Choice>& choices, KernelCache& cache) {
  const Compiler compiler;
  on_all_cores(choices, [&](size_t i) {
    cache.get_or_build(render(v, choices[i].config, compiler.arch()), compiler);
  });
}

std::vector<Choice> sample_configs(const GemmView& v, const ArchSpec& arch, size_t count) {
  constexpr size_t kOfEachKind = 4;
  std::vector<KernelConfig> legal = legal_configs(v, arch);
  std::erase_if(legal, [](const KernelConfig& c) { return info(c.family_id()).header.empty(); });
  std::vector<double> us(legal.size());
  analytic_model().predict(v, arch, legal, us);
  std::vector<size_t> order(legal.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return us[x] < us[y]; });
  const auto kind = [&](size_t i) {
    const KernelConfig& c = legal[i];
    return std::make_tuple(c.family, c.split_k > 1, c.cluster_k > 1, c.blocks_per_cu, c.block_k,
                           c.wave_m * c.wave_groups, c.swap_ab);
  };
  std::map<decltype(kind(0)), size_t> seen;
  std::vector<size_t> first, kinds, rest;
  for (size_t i : order) {
    if (first.size() < count / 3) {
      first.push_back(i);
    } else if (seen[kind(i)]++ < kOfEachKind && us[i] < 4 * us[order[0]]) {
      kinds.push_back(i);
    } else {
      rest.push_back(i);
    }
  }
  std::mt19937 random(1);
  std::shuffle(kinds.begin(), kinds.end(), random);
  std::shuffle(rest.begin(), rest.end(), random);
  std::vector<Choice> out;
  for (const auto& [list, most] : {std::pair(&first, count), {&kinds, count * 9 / 10}, {&rest, count}})
    for (size_t i = 0; i < list->size() && out.size() < most; ++i)
      out.push_back({legal[(*list)[i]], us[(*list)[i]], ChoiceSource::measured});
  return out;
}

}  // namespace tessera
