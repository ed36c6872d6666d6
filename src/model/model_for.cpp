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

bool ModelScope::covers(const ArchSpec& a, const Problem& p) const {
  return (a.name == arch || a.models == arch) && to_string(p.op) == operation &&
         std::find(types.begin(), types.end(), types_text(p)) != types.end() && serving_units(a) != 0;
}

namespace {

// How many times as many one number of units is as the other.
double apart(int x, int y) { return static_cast<double>(std::max(x, y)) / std::min(x, y); }

}  // namespace

int ModelScope::serving_units(const ArchSpec& a) const {
  const int count = std::max(a.compute_units, 1);
  if (std::find(units.begin(), units.end(), count) != units.end()) return count;
  if (a.backend != BackendKind::cpu) return 0;
  int nearest = 0;
  for (const int u : units) {
    if (!nearest || std::pair(apart(u, count), u) < std::pair(apart(nearest, count), nearest)) nearest = u;
  }
  return nearest;
}

std::string ModelScope::title() const {
  const auto archs = all_archs();
  const auto found = std::find_if(archs.begin(), archs.end(), [&](auto& a) { return a.name == arch; });
  const bool cores = found != archs.end() && found->backend == BackendKind::cpu;
  std::string text = arch + "/" + operation;
  if (cores && units.size() == 1 && units[0] != 1) text += "." + std::to_string(units[0]);
  return text;
}

namespace {

using ModelPtr = std::shared_ptr<const LearnedModel>;

// Every model of this program for an operation on one architecture and those it serves.
std::vector<ModelPtr> shipped_models(const std::string& arch, const std::string& operation) {
  const std::string folder = "models/" + arch + "/" + operation;
  std::vector<ModelPtr> out;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == folder + ".model" || glob_match(folder + ".*.model", file.path))
      out.push_back(LearnedModel::parse(file.text, file.path));
  }
  return out;
}

// What was read once, by what it was asked for as.
template <class Read>
const std::vector<ModelPtr>& read_once(const std::string& key, const Read& read) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<ModelPtr>> known;
  std::lock_guard lock(mutex);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, read()).first->second;
}

}  // namespace

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
  const auto distance = [&](const LearnedModel& m) {
    const int units = m.scope().serving_units(a);
    return std::pair(apart(units, std::max(a.compute_units, 1)), units);
  };
  for (const ModelPtr& m : models) {
    if (m->scope().covers(a, p) && (!best || distance(*m) < distance(*best))) best = m.get();
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
