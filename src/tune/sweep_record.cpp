#include "tune/sweep_record.h"

#include <algorithm>
#include <array>

#include "base/fs.h"
#include "base/text.h"
#include "tessera/error.h"
#include "tune/journal.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, kSweepOutcomes> kOutcomes = {
    "ok", "wrong", "crashed", "timed_out", "compile_failed", "failed", "quarantined"};

constexpr std::string_view kJournalSuffix = ".journal";

// Samples are good to a few digits; shorter text keeps journals small.
double rounded(double us) { return *parse_number(format("%.5g", us)); }

std::string key_of(std::string_view problem, std::string_view config) {
  return std::string(problem) + '\n' + std::string(config);
}

int faults_of(const SweepRecord& r) {
  return r.outcome == SweepOutcome::crashed ? r.attempts : r.outcome == SweepOutcome::timed_out ? 1 : 0;
}

}  // namespace

std::span<const std::string_view> sweep_outcome_names() { return kOutcomes; }

std::string_view to_string(SweepOutcome o) { return kOutcomes[static_cast<size_t>(o)]; }

SweepOutcome parse_sweep_outcome(std::string_view text) {
  const auto* found = std::ranges::find(kOutcomes, text);
  if (found == kOutcomes.end())
    throw Error(ErrorCode::bad_input, "unknown outcome '" + std::string(text) + "'",
                "one of " + join(kOutcomes, " "));
  return static_cast<SweepOutcome>(found - kOutcomes.begin());
}

Json to_json(const SweepRecord& r) {
  Json out = Json::object({{"problem", r.problem},
                           {"config", r.config},
                           {"outcome", to_string(r.outcome)},
                           {"attempts", r.attempts},
                           {"time", r.time}});
  if (!r.samples.empty()) {
    Json samples = Json::array();
    for (double us : r.samples) samples.push(rounded(us));
    out.set("median_us", rounded(r.median_us)).set("best_us", rounded(r.best_us));
    out.set("samples", std::move(samples));
    out.set("anchor_us", rounded(r.anchor_us)).set("cpu_share", rounded(r.cpu_share));
    out.set("max_err", r.max_err).set("bound", r.bound);
  }
  if (!r.detail.empty()) out.set("detail", r.detail);
  return out;
}

SweepRecord sweep_record_from_json(const Json& j) {
  SweepRecord r{.problem = j.at("problem").as_string(),
                .config = j.at("config").as_string(),
                .outcome = parse_sweep_outcome(j.at("outcome").as_string()),
                .attempts = static_cast<int>(j.at("attempts").as_int()),
                .samples = {},
                .detail = {},
                .time = j.at("time").as_int()};
  if (const Json* samples = j.find("samples")) {
    for (const Json& us : samples->items()) r.samples.push_back(us.as_double());
    r.median_us = j.at("median_us").as_double();
    r.best_us = j.at("best_us").as_double();
    r.anchor_us = j.at("anchor_us").as_double();
    r.cpu_share = j.at("cpu_share").as_double();
    r.max_err = j.at("max_err").as_double();
    r.bound = j.at("bound").as_double();
  }
  if (const Json* detail = j.find("detail")) r.detail = detail->as_string();
  return r;
}

void keep_quickest(SweepRecord& kept, SweepRecord fresh) {
  const bool both = kept.outcome == SweepOutcome::ok && fresh.outcome == SweepOutcome::ok;
  if (both ? fresh.best_us < kept.best_us : fresh.time >= kept.time) kept = std::move(fresh);
}

void SweepResults::add(SweepRecord record) {
  const auto [found, fresh] = index_.try_emplace(key_of(record.problem, record.config), records_.size());
  faults_[record.config] += faults_of(record);
  if (fresh) {
    records_.push_back(std::move(record));
  } else {
    SweepRecord& old = records_[found->second];
    faults_[old.config] -= faults_of(old);
    keep_quickest(old, std::move(record));
  }
}

void SweepResults::remove(const std::string& problem, const std::string& config) {
  const auto found = index_.find(key_of(problem, config));
  if (found == index_.end()) return;
  const size_t at = found->second;
  faults_[config] -= faults_of(records_[at]);
  index_.erase(found);
  if (at + 1 != records_.size()) {
    records_[at] = std::move(records_.back());
    index_[key_of(records_[at].problem, records_[at].config)] = at;
  }
  records_.pop_back();
}

const SweepRecord* SweepResults::find(std::string_view problem, std::string_view config) const {
  const auto found = index_.find(key_of(problem, config));
  return found == index_.end() ? nullptr : &records_[found->second];
}

int SweepResults::faults(const std::string& config) const {
  const auto found = faults_.find(config);
  return found == faults_.end() ? 0 : found->second;
}

SweepResults SweepResults::read(const std::string& directory) {
  SweepResults out;
  for (const std::string& name : list_directory(directory)) {
    if (!name.ends_with(kJournalSuffix)) continue;
    const std::string path = directory + '/' + name;
    const std::string text = read_file(path);
    size_t damaged = 0;
    for (std::string_view record : journal_records(text, &damaged))
      out.add(sweep_record_from_json(Json::parse(record, path)));
    out.damaged_ += damaged;
  }
  return out;
}

std::string sweep_journal_path(const std::string& directory, int shard, int shards) {
  return directory + format("/shard-%d-of-%d", shard + 1, shards) + std::string(kJournalSuffix);
}

}  // namespace tessera
