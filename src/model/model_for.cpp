// Which learned model serves a problem on an architecture.
#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/embedded.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/text.h"
#include "model/learned.h"

namespace tessera {

namespace {

// How far so many units are from others: by ratio, and of two that are as near the fewer first.
std::pair<double, int> distance(int units, int from) {
  const int count = std::max(from, 1);
  return {static_cast<double>(std::max(units, count)) / std::min(units, count), units};
}

using ModelPtr = std::shared_ptr<const LearnedModel>;

// Every model of this program for an operation on one architecture and those it serves: OPERATION.model, and
// those of several cores.
std::vector<ModelPtr> shipped_models(const std::string& arch, const std::string& operation) {
  std::vector<ModelPtr> out;
  for (const EmbeddedFile& file : embedded_files()) {
    if (glob_match("models/" + arch + "/" + operation + ".*model", file.path))
      out.push_back(LearnedModel::parse(file.text, file.path));
  }
  return out;
}

// What was read once, by what it was asked for as.
template <class Read>
const std::vector<ModelPtr>& read_once(const std::string& key, const Read& read) {
  static std::mutex mutex;
  static auto& known =
      *new std::map<std::string, std::vector<ModelPtr>>;  // for threads while the process ends
  std::lock_guard lock(mutex);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, read()).first->second;
}

}  // namespace

int units_at_work(const ArchSpec& a, const GemmView& v) {
  return a.backend == BackendKind::cpu && !v.worth_threads() ? 1 : a.compute_units;
}

bool ModelScope::covers(const ArchSpec& a, const Problem& p) const {
  return (a.name == arch || a.models == arch) && to_string(p.op) == operation &&
         std::find(types.begin(), types.end(), types_text(p)) != types.end() && serving_units(a) != 0;
}

int ModelScope::serving_units(const ArchSpec& a) const {
  const auto nearest = std::min_element(units.begin(), units.end(), [&](int x, int y) {
    return distance(x, a.compute_units) < distance(y, a.compute_units);
  });
  if (nearest == units.end()) return 0;
  return a.backend == BackendKind::cpu || *nearest == a.compute_units ? *nearest : 0;
}

std::string ModelScope::title() const {
  const auto archs = all_archs();
  const auto found = std::find_if(archs.begin(), archs.end(), [&](auto& a) { return a.name == arch; });
  const bool cores = found != archs.end() && found->backend == BackendKind::cpu;
  std::string text = arch + "/" + operation;
  if (cores && units.size() == 1 && units[0] != 1) text += "." + std::to_string(units[0]);
  return text;
}

const Model& model_for(const std::string& choice, const ArchSpec& a, const Problem& p) {
  if (choice == analytic_model().name()) return analytic_model();
  const std::string operation(to_string(p.op));
  const std::vector<ModelPtr>& models =
      choice.empty() ? read_once("shipped " + a.models + " " + operation,
                                 [&] { return shipped_models(a.models, operation); })
                     : read_once("file " + choice, [&] {
                         return std::vector<ModelPtr>{LearnedModel::parse(read_file(choice), choice)};
                       });
  const LearnedModel* best = nullptr;
  const int units = models.size() > 1 ? units_at_work(a, lower(p)) : a.compute_units;
  const auto far = [&](const LearnedModel& m) { return distance(m.scope().serving_units(a), units); };
  for (const ModelPtr& m : models) {
    if (m->scope().covers(a, p) && (!best || far(*m) < far(*best))) best = m.get();
  }
  if (best) return *best;
  if (!choice.empty()) {
    const ModelScope& scope = models[0]->scope();
    const std::string here = operation + ", " + types_text(p) + ", on " + a.name;
    warn_once("model " + choice + ' ' + here, "model '" + choice + "' is for " + scope.operation + ", " +
                                                  join(scope.types, " ") + ", on " + scope.arch +
                                                  ": the analytic model ranks " + here +
                                                  "; leave the model out to use the shipped one");
  }
  return analytic_model();
}

}  // namespace tessera
