// A benchmark: problems run by Tessera and by peers, interleaved, verified, compared.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/json.h"
#include "tune/measure.h"
#include "tune/peer.h"
#include "tune/suite.h"

namespace tessera {

struct PeerResult {
  std::string name;
  double time_us = 0;  // 0: not offered, for the reason in `why`
  bool verified = false;
  std::string why;
};

struct BenchRow {
  std::string name;
  Problem problem;
  std::string config, source;
  double predicted_us = 0, time_us = 0, build_ms = 0;
  bool checked = false, verified = false;  // of our result; checked is false without BenchOptions::verify
  std::vector<PeerResult> peers;
  std::string error;  // "" or why there is no time; or what was wrong with the result

  double gflops() const;
};

struct BenchOptions {
  bool verify = false;
  int threads = 1;  // of the peers
  MeasureOptions measure;
};

// Everything but an unknown peer ends up in the row, not in an exception.
BenchRow bench_problem(Dispatcher& dispatcher, const SuiteRow& row,
                       const std::vector<std::shared_ptr<const Peer>>& peers, const BenchOptions& options);

// How we compare to one peer over the rows both have times for.
struct Comparison {
  std::string peer;
  size_t rows = 0;
  double geomean = 0;  // of peer time / our time: above 1 we are faster
  double worst = 0, best = 0;
};
Comparison compare(const std::vector<BenchRow>& rows, const std::string& peer);

// {problem, name, config, time_us, peers: {name: us}, verified (null when not checked), ...}
Json to_json(const BenchRow& row);
// {rows, failed, wrong, gflops (geometric mean), peers: {name: {rows, geomean, worst, best}}}
Json bench_summary(const std::vector<BenchRow>& rows);
// The suites' columns and the results; one line per row.
std::string to_csv(const std::vector<BenchRow>& rows);

}  // namespace tessera
