#include "tessera/tune_db.h"

#include <cstdlib>
#include <map>

#include "base/fs.h"
#include "base/log.h"
#include "tessera/error.h"
#include "tune/database.h"

namespace tessera {
namespace {

class StoredDecisions : public Decisions {
 public:
  explicit StoredDecisions(const std::vector<TunedDecision>& all) {
    for (const TunedDecision& d : all) {
      std::string why;
      const auto config = KernelConfig::parse(d.config, &why);
      if (config) configs_[{d.arch, d.units, d.problem}] = {*config, d.us, ChoiceSource::tuned};
    }
  }

  std::optional<Choice> find(const std::string& arch, int units, const Problem& problem) const override {
    if (configs_.empty()) return std::nullopt;
    const auto found = configs_.find({arch, units, to_string(problem)});
    return found == configs_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<std::tuple<std::string, int, std::string>, Choice> configs_;
};

}  // namespace

std::string default_tune_db() {
  if (const char* path = std::getenv("TESSERA_DB"); path && *path) return path;
  const std::string cache = user_cache_directory();
  return cache.empty() ? "" : cache + "/tune.sqlite";
}

std::shared_ptr<const Decisions> open_decisions(const std::string& path, bool must_read) {
  std::vector<TunedDecision> all;
  if (path.empty() || (!must_read && !path_exists(path))) return std::make_shared<StoredDecisions>(all);
  try {
    all = Database(path, Database::Mode::read).decisions();
  } catch (const Error& e) {
    if (must_read) throw;
    warn_once("database " + path, std::string(e.what()) + "; going on without its decisions");
  }
  return std::make_shared<StoredDecisions>(all);
}

}  // namespace tessera
