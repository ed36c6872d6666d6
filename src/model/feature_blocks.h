// The rows of features that a learned model is asked about, a few configurations at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/groups_shape.h"
#include "core/packed_columns.h"
#include "model/analytic.h"
#include "model/features.h"

namespace tessera {

// So many configurations at a time stay in the first cache while feature after feature is taken of them.
inline constexpr size_t kFeatureBlock = 32;

// Configurations to ask the trees about, by index, with what the analytic model said of them.
struct Asked {
  AnalyticTerms& terms;
  const GemmView& v;
  const ArchSpec& a;
  std::span<const KernelConfig> configs;
  std::span<const double> us;
  std::span<const Work> works;  // of all of them, or none
  std::span<const uint32_t> which;
};

// visit(first row, its rows) for one block of `q.which` after the other.
template <class F>
void in_blocks(const Asked& q, const F& visit) {
  thread_local std::vector<Work> works;
  thread_local std::vector<FeatureInput> rows;
  const FeatureView view(q.v, q.a);
  std::optional<GemmView> columns;
  std::optional<FeatureView> view_of_columns;
  if (q.v.b_prepacked &&
      std::ranges::any_of(q.which, [&](uint32_t i) { return packs_columns(q.configs[i]); }))
    view_of_columns.emplace(columns.emplace(with_packed_columns(q.v)), q.a);
  thread_local std::vector<GroupsShape> groups;
  works.reserve(kFeatureBlock);
  rows.reserve(kFeatureBlock);
  groups.reserve(kFeatureBlock);
  for (size_t first = 0; first < q.which.size(); first += kFeatureBlock) {
    works.clear();
    rows.clear();
    groups.clear();
    for (const uint32_t i : q.which.subspan(first, std::min(kFeatureBlock, q.which.size() - first))) {
      const KernelConfig& c = q.configs[i];
      const Work& w = q.works.empty() ? works.emplace_back(q.terms.work(c)) : q.works[i];
      const bool by_groups = c.family_id() == Family::cpu_groups;
      rows.emplace_back(view_of_columns && packs_columns(c) ? *view_of_columns : view, c, w, q.us[i],
                        by_groups ? &groups.emplace_back(groups_shape(q.v, c)) : nullptr);
    }
    visit(first, std::span<const FeatureInput>(rows));
  }
}

}  // namespace tessera
