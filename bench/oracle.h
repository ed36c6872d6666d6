// How choices compare with the best of every legal configuration, once those are measured.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "core/arch_spec.h"
#include "tessera/problem.h"

namespace tessera {

class Oracle {
 public:
  // `csv`: a row for each problem. Of `device` and its architecture, whose shipped and analytic models
  // choose.
  Oracle(const std::string& csv, std::string device, const ArchSpec& arch);
  ~Oracle() { std::fclose(csv_); }
  Oracle(const Oracle&) = delete;

  // The times of one problem by configuration. Nothing where the shipped model's choice is not among them,
  // which is counted and said.
  void add(const Problem& p, const std::map<std::string, double>& us);
  // Mean, 10th percentile and least of best / chosen.
  void print() const;

 private:
  std::string device_;
  const ArchSpec& arch_;
  std::FILE* csv_;
  std::vector<double> first_, top3_, analytic_, analytic_top3_;
  size_t measured_ = 0, legal_ = 0, left_out_ = 0;
};

}  // namespace tessera
