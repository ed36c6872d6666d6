// Selection: the candidates of a problem, in the order of a policy.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/dispatcher.h"

namespace tessera {

inline constexpr int kMostTopK = 1'000'000;  // DispatcherOptions::top_k

struct SelectionInput {
  const Problem& problem;
  const GemmView& view;
  const ArchSpec& arch;
  const DispatcherOptions& options;
  size_t most = std::numeric_limits<size_t>::max();  // candidates wanted of the order's head
};

// Legal candidates (of the registry, when there is one) with predicted times, best first by the policy. The
// order of equals is the enumeration order. A stored decision that is a legal candidate comes first under the
// policies that ask for one; *source says where the first came from. Error(unsupported) when nothing is
// legal, saying which rules refused how many. model_topk ranks as model does: timing is the dispatcher's.
std::vector<Candidate> ranked_candidates(const SelectionInput& in, ChoiceSource* source = nullptr);

// Whether a choice of this kind looks at a part of the candidates only: few are wanted of very many, none by
// its name.
bool ranks_a_part(const SelectionInput& in);

// What is chosen from on a device: all that is legal where it only plans, else what has a kernel.
std::vector<KernelConfig> configs_on(const std::string& device, const GemmView& v, const ArchSpec& a);

// How many of the candidates, best first and at least one, policy model_topk times: `band` is Model::band().
size_t raced(const DispatcherOptions& options, double band, std::span<const Candidate> candidates);

// "nothing legal ...": for the error text and for explain.
std::string why_nothing_is_legal(const GemmView& view, const ArchSpec& arch);

ChoiceSource choice_source(Policy policy);

// What a selection would run into whatever the problem: Error(bad_input) for members that contradict each
// other or do not parse, Error(io) or Error(corrupt) for a model that does not serve.
void check_options(const DispatcherOptions& options);

}  // namespace tessera
