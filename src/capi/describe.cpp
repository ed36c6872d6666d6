// tsr_describe: facts as JSON, one row each.
#include "backend/backend.h"
#include "base/text.h"
#include "capi/capi.h"
#include "core/gemm_view.h"
#include "core/json_values.h"
#include "core/tensors.h"
#include "runtime/kernel_set.h"
#include "tessera/error.h"
#include "tune/suite.h"

namespace tessera::capi {
namespace {

Json names_of(std::span<const ArchSpec> archs) {
  Json out = Json::array();
  for (const ArchSpec& a : archs) out.push(a.name);
  return out;
}

Json library(std::string_view) {
  Json dtypes = Json::array(), steps = Json::array(), knobs = Json::array(), sets = Json::array();
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeInfo& t = info(static_cast<DType>(i));
    dtypes.push(Json::object({{"name", t.name},
                              {"alias", t.alias},
                              {"bytes", t.bytes},
                              {"float", t.is_float},
                              {"default_out", to_string(t.default_out)}}));
  }
  for (int i = 0; i < kEpilogueKindCount; ++i) {
    const EpilogueKindInfo& k = info(static_cast<EpilogueKind>(i));
    steps.push(Json::object({{"name", k.name}, {"tensor", k.takes_d}, {"params", k.params}, {"doc", k.doc}}));
  }
  for (const ConfigField& f : config_fields()) {
    Json values = Json::array();
    for (std::string_view name : f.names) values.push(name);
    knobs.push(Json::object({{"name", f.name},
                             {"key", f.key},
                             {"default", f.default_value},
                             {"values", std::move(values)},
                             {"doc", f.doc}}));
  }
  for (const KernelSet& s : kernel_sets()) sets.push(s.name);
  return Json::object({{"version", TESSERA_VERSION},
                       {"abi", TSR_ABI_VERSION},
                       {"dtypes", std::move(dtypes)},
                       {"epilogue_steps", std::move(steps)},
                       {"knobs", std::move(knobs)},
                       {"archs", names_of(all_archs())},
                       {"suites", write_strings(suite_names())},
                       {"sets", std::move(sets)}});
}

Json device(std::string_view text) {
  refuse_forked_child();
  note_device_use();
  const auto backend = make_backend(text);
  const ArchSpec& a = backend->arch();
  return Json::object({{"device", text},
                       {"arch", a.name},
                       {"threads", a.compute_units},
                       {"compiler", backend->compiler_identity()}});
}

Json problem(std::string_view text) {
  const Problem p = Problem::parse(text);
  Json list = Json::array();
  for (const Tensor& t : tensors(p)) list.push(to_json(t));
  const GemmView v = lower(p);
  return Json::object({{"problem", to_string(p)},
                       {"op", to_string(p.op)},
                       {"prepack_b", p.prepack_b},
                       {"flops", v.flops()},
                       {"bytes", v.bytes()},
                       {"tensors", std::move(list)}});
}

// From a config's text or its knobs as JSON.
Json config(std::string_view text) {
  const KernelConfig c =
      text.starts_with('{') ? config_from_json(Json::parse(text, "config")) : KernelConfig::read(text);
  return Json::object({{"config", to_string(c)}, {"knobs", to_json(c)}});
}

Json suite(std::string_view text) {
  Json rows = Json::array();
  for (const SuiteRow& r : read_suite(std::string(text)))
    rows.push(Json::object({{"name", r.name}, {"problem", to_string(r.problem)}}));
  return rows;
}

struct Fact {
  std::string_view name;
  Json (*answer)(std::string_view text);
};

constexpr Fact kFacts[] = {
    {"library", library}, {"device", device}, {"problem", problem}, {"config", config}, {"suite", suite}};

}  // namespace

Json describe(std::string_view what, std::string_view text) {
  std::vector<std::string> names;
  for (const Fact& f : kFacts) {
    if (f.name == what) return f.answer(text);
    names.emplace_back(f.name);
  }
  throw Error(ErrorCode::bad_input, "nothing is called '" + std::string(what) + "'",
              "one of " + join(names, " "));
}

}  // namespace tessera::capi
