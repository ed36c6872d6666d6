#include "tessera/tune_db.h"

#include <cstdlib>
#include <ctime>
#include <map>

#include "base/fs.h"
#include "base/log.h"
#include "tessera/error.h"
#include "tune/database.h"

namespace tessera {
namespace {

// A dispatcher works without its database, and neither its creation nor its end may hang on another process.
constexpr int kPatienceMs = 500;

class StoredDecisions : public Decisions {
 public:
  StoredDecisions(const std::vector<TunedDecision>& all, std::string path) : path_(std::move(path)) {
    for (const TunedDecision& d : all) {
      try {
        configs_[{d.arch, d.units, d.problem}] = {KernelConfig::read(d.config), d.us, ChoiceSource::tuned};
      } catch (const Error& e) {
        warn_once("decision " + d.config,
                  "a stored decision is left out: " + e.what_happened() + "; tessera tune stores another");
      }
    }
  }

  std::optional<Choice> find(const std::string& arch, int units, const Problem& problem) const override {
    if (configs_.empty()) return std::nullopt;
    const auto found = configs_.find({arch, units, to_string(problem)});
    return found == configs_.end() ? std::nullopt : std::optional(found->second);
  }

  // For later processes: this one's dispatcher knows already.
  void keep(const std::string& arch, int units, const Problem& problem, const Choice& choice) const override {
    if (path_.empty()) return;
    try {
      Database(path_, Database::Mode::write, kPatienceMs)
          .decide({{arch, units, to_string(problem), to_string(choice.config), choice.predicted_us,
                    std::time(nullptr)}});
    } catch (const Error& e) {
      warn_once("database " + path_, std::string(e.what()) + "; what model_topk measured is not kept");
    }
  }

 private:
  std::string path_;
  std::map<std::tuple<std::string, int, std::string>, Choice> configs_;
};

}  // namespace

std::string default_tune_db() {
  if (const char* path = std::getenv("TESSERA_DB"); path && *path)
    return path == std::string_view("none") ? "" : path;
  const std::string cache = user_cache_directory();
  return cache.empty() ? "" : cache + "/tune.sqlite";
}

std::shared_ptr<const Decisions> open_decisions(const std::string& path, bool must_read) {
  std::vector<TunedDecision> all;
  if (path.empty() || (!must_read && !path_exists(path))) return std::make_shared<StoredDecisions>(all, path);
  try {
    all = Database(path, Database::Mode::read, must_read ? Database::kPatienceMs : kPatienceMs).decisions();
  } catch (const Error& e) {
    if (must_read) throw;
    warn_once("database " + path, std::string(e.what()) + "; going on without its decisions");
  }
  return std::make_shared<StoredDecisions>(all, path);
}

}  // namespace tessera
