#include "runtime/pack_decisions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"

namespace tessera {
namespace {

class PackedDecisions : public Decisions {
 public:
  PackedDecisions(std::shared_ptr<const Decisions> own, std::vector<std::shared_ptr<const Pack>> packs)
      : own_(std::move(own)), packs_(std::move(packs)) {}

  std::optional<Choice> find(const std::string& arch, int units, const Problem& problem) const override {
    if (own_) {
      if (auto choice = own_->find(arch, units, problem)) return choice;
    }
    const std::string text = to_string(problem);
    for (const auto& pack : packs_) {
      const PackDecision* const decision = pack->decision(arch, units, text);
      if (!decision) continue;
      try {
        return Choice{.config = KernelConfig::read(decision->config), .source = ChoiceSource::tuned};
      } catch (const Error& e) {
        warn_once("decision " + decision->config,
                  "a decision of pack '" + pack->path() + "' is left out: " + e.what_happened());
      }
    }
    return std::nullopt;
  }

  void keep(const std::string& arch, int units, const Problem& problem, const Choice& choice) const override {
    if (own_) own_->keep(arch, units, problem, choice);
  }

 private:
  std::shared_ptr<const Decisions> own_;
  std::vector<std::shared_ptr<const Pack>> packs_;
};

}  // namespace

std::shared_ptr<const Decisions> with_packs(std::shared_ptr<const Decisions> own,
                                            std::span<const std::shared_ptr<const Pack>> packs) {
  std::vector<std::shared_ptr<const Pack>> deciding;
  std::copy_if(packs.begin(), packs.end(), std::back_inserter(deciding),
               [](const auto& pack) { return pack->decides(); });
  if (deciding.empty()) return own;
  return std::make_shared<PackedDecisions>(std::move(own), std::move(deciding));
}

}  // namespace tessera
