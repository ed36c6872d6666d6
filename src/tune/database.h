// Measurements and decisions in an SQLite file. Workers never share one: they write journals (sweep_run.h),
// which are imported here.
//
//   device       arch, units (cores or compute units used), processor
//   problem      text form
//   config       text form, and one column per knob
//   measurement  of (device, problem, config) at a time: outcome, samples, check, tool
//   decision     the config to use for a problem on an architecture with so many units
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/measurement.h"

namespace tessera {

struct TunedDecision {
  std::string arch;
  int units = 0;
  std::string problem, config;
  double us = 0;  // as measured
  int64_t time = 0;
};

// Which measurements: empty members match all; texts are globs.
struct MeasurementFilter {
  std::string arch, problem, config, outcome;
};

class Database {
 public:
  enum class Mode : int { read, write };  // write creates what is missing
  static constexpr int kPatienceMs = 10'000;

  // Error(io) when it cannot be opened, Error(corrupt) when it is no database of ours. What another process
  // has locked is waited for `patience_ms` at most, here and in every call.
  Database(const std::string& path, Mode mode, int patience_ms = kPatienceMs);
  ~Database();
  Database(Database&&) = delete;

  // All or none. A measurement that is there already (the same device, problem, config and time) stays as it
  // is. Returns how many were new.
  size_t add(const std::vector<Measurement>& measurements);
  // The last one for (arch, units, problem) stays.
  void decide(const std::vector<TunedDecision>& decisions);
  // Deletes the decisions of these (arch, units, problem).
  void forget(const std::vector<TunedDecision>& decisions);
  // Measurements and decisions of another file; of two decisions the later one stays. Returns how many
  // measurements were new.
  size_t merge(const std::string& other);

  void each(const MeasurementFilter& filter, const std::function<void(const Measurement&)>& visit) const;
  std::vector<TunedDecision> decisions(const MeasurementFilter& filter = {}) const;  // outcomes aside
  // Of each (arch, units, problem) the right configuration with the least median, and its time.
  std::vector<TunedDecision> best(const MeasurementFilter& filter) const;

  // What is wrong with the file and its content, in words; empty when nothing is.
  std::vector<std::string> verify() const;

  const std::string& path() const { return path_; }

 private:
  struct Impl;
  std::string path_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
