// What selection has to say, as JSON: one form for every language.
#pragma once

#include <span>
#include <string_view>

#include "tessera/dispatcher.h"

namespace tessera {

// {problem, arch, choice, why_none, model, select_us, candidates, rejected}. times_us: measured ones of the
// first candidates, if any.
Json explanation_json(const Problem& problem, std::string_view arch, const Explanation& e,
                      std::span<const double> times_us = {});

// {problem, arch, config, legal, rule, reason, suggestion, changes}
Json correction_json(const Problem& problem, std::string_view arch, const Correction& c);

}  // namespace tessera
