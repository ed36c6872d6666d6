// One line of a sweep's journal: what became of one configuration on one problem.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/json.h"

namespace tessera {

enum class SweepOutcome : int {
  ok,              // right, and timed
  wrong,           // ran, but the result is not right
  crashed,         // ended its process, twice
  timed_out,       // did not end within the limit
  compile_failed,  // the compiler refused it
  failed,          // anything else, in words in `detail`
  quarantined      // not run: it crashed or hung before
};
inline constexpr size_t kSweepOutcomes = static_cast<size_t>(SweepOutcome::quarantined) + 1;
std::string_view to_string(SweepOutcome o);
SweepOutcome parse_sweep_outcome(std::string_view text);  // Error(bad_input) with the known words
std::span<const std::string_view> sweep_outcome_names();

struct SweepRecord {
  std::string problem, config;  // text forms
  SweepOutcome outcome = SweepOutcome::failed;
  int attempts = 1;             // processes it was run in
  std::vector<double> samples;  // microseconds, in the order taken; empty unless ok
  double median_us = 0, best_us = 0;
  double anchor_us = 0;  // the anchor kernel's least among these samples; 0 without one
  double cpu_share = 1;  // of the wall time of measuring, what this process had a core for
  double max_err = 0, bound = 0;
  std::string detail;
  int64_t time = 0;  // seconds since 1970
};

Json to_json(const SweepRecord& r);
SweepRecord sweep_record_from_json(const Json& j);

// Of two measurements of a pair the later, but of two right ones the one with the least sample: disturbances
// only add.
void keep_quickest(SweepRecord& kept, SweepRecord fresh);

// What all journals of a directory say, for each pair what keep_quickest() leaves.
class SweepResults {
 public:
  static SweepResults read(const std::string& directory);

  void add(SweepRecord record);
  void remove(const std::string& problem, const std::string& config);
  const SweepRecord* find(std::string_view problem, std::string_view config) const;
  const std::vector<SweepRecord>& records() const& { return records_; }  // one per pair
  std::vector<SweepRecord> records() && { return std::move(records_); }
  size_t damaged() const { return damaged_; }  // lines that are no records

  // Crashes and hangs of a configuration over all problems: at two it is quarantined.
  int faults(const std::string& config) const;

 private:
  std::vector<SweepRecord> records_;
  std::unordered_map<std::string, size_t> index_;
  std::unordered_map<std::string, int> faults_;
  size_t damaged_ = 0;
};

inline constexpr int kQuarantineAt = 2;

std::string sweep_journal_path(const std::string& directory, int shard, int shards);

}  // namespace tessera
