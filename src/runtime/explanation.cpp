#include "runtime/explanation.h"

#include "core/json_values.h"

namespace tessera {

Json explanation_json(const Problem& problem, std::string_view arch, const Explanation& e,
                      std::span<const double> times_us) {
  Json candidates = Json::array(), rejected = Json::array();
  for (size_t i = 0; i < e.candidates.size(); ++i) {
    Json row = Json::object(
        {{"config", to_string(e.candidates[i].config)}, {"predicted_us", e.candidates[i].predicted_us}});
    if (i < times_us.size()) row.set("time_us", times_us[i]);
    candidates.push(std::move(row));
  }
  for (const auto& r : e.rejected) {
    rejected.push(Json::object({{"config", to_string(r.config)}, {"rule", r.rule}, {"reason", r.reason}}));
  }
  Json choice, why_none;
  if (e.why_none.empty()) {
    choice = Json::object({{"config", to_string(e.choice.config)},
                           {"predicted_us", e.choice.predicted_us},
                           {"source", to_string(e.choice.source)}});
  } else {
    why_none = Json(e.why_none);
  }
  return Json::object({{"problem", to_string(problem)},
                       {"arch", arch},
                       {"choice", std::move(choice)},
                       {"why_none", std::move(why_none)},
                       {"model", e.model},
                       {"select_us", e.select_us},
                       {"candidates", std::move(candidates)},
                       {"rejected", std::move(rejected)}});
}

Json correction_json(const Problem& problem, std::string_view arch, const Correction& c) {
  return Json::object({{"problem", to_string(problem)},
                       {"arch", arch},
                       {"config", to_string(c.config)},
                       {"legal", c.legal()},
                       {"rule", c.legal() ? Json() : Json(c.rule)},
                       {"reason", c.legal() ? Json() : Json(c.reason)},
                       {"suggestion", c.nearest ? Json(to_string(*c.nearest)) : Json()},
                       {"changes", write_strings(c.changes)}});
}

}  // namespace tessera
