#include "tune/bench.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "core/gemm_view.h"
#include "tune/verify.h"

namespace tessera {
namespace {

// Names of all peers of the rows, in order of appearance.
std::vector<std::string> peer_names(const std::vector<BenchRow>& rows) {
  std::vector<std::string> names;
  for (const BenchRow& row : rows) {
    for (const PeerResult& p : row.peers) {
      if (std::find(names.begin(), names.end(), p.name) == names.end()) names.push_back(p.name);
    }
  }
  return names;
}

const PeerResult* find_peer(const BenchRow& row, const std::string& name) {
  const auto found =
      std::find_if(row.peers.begin(), row.peers.end(), [&](const PeerResult& p) { return p.name == name; });
  return found == row.peers.end() ? nullptr : &*found;
}

void run_ours(Dispatcher& dispatcher, const BenchOptions& o, BenchRow& row,
              std::unique_ptr<Operands>& operands, std::optional<Verifiers>& right,
              std::vector<Repeated>& work) {
  BuildInfo build;
  const Kernel& kernel = dispatcher.get(row.problem, &build);
  row.config = to_string(kernel.choice().config);
  row.source = to_string(kernel.choice().source);
  row.predicted_us = kernel.choice().predicted_us;
  row.build_ms = build.build_ms;
  operands = std::make_unique<Operands>(row.problem, FillKind::uniform, 1, Operands::kTimingAlign);
  const Buffers buffers = operands->bind(kernel);
  kernel.run(buffers);
  operands->fetch(kernel);
  if (o.verify) {
    const Verification v = right.emplace(*operands).of(arithmetic_of(kernel)).check();
    row.checked = true;
    row.verified = v.ok;
    if (!v.ok) row.error = "wrong result: " + v.failure;
  }
  work.push_back([&kernel, buffers](int repeats) {
    for (int i = 0; i < repeats; ++i) kernel.run_unchecked(buffers);
    kernel.wait();
  });
}

}  // namespace

double BenchRow::gflops() const { return time_us > 0 ? lower(problem).flops() / time_us / 1e3 : 0; }

BenchRow bench_problem(Dispatcher& dispatcher, const SuiteRow& suite_row,
                       const std::vector<std::shared_ptr<const Peer>>& peers, const BenchOptions& o) {
  BenchRow row{.name = suite_row.name, .problem = suite_row.problem};
  std::unique_ptr<Operands> operands;
  std::optional<Verifiers> right;
  std::vector<Repeated> work;
  try {
    run_ours(dispatcher, o, row, operands, right, work);
    std::vector<PeerKernel> kernels;
    std::vector<size_t> of_result;
    kernels.reserve(peers.size());
    for (const auto& peer : peers) {
      PeerResult result{.name = peer->name()};
      if (auto kernel = peer->prepare(row.problem, o.threads, &result.why)) {
        if (row.problem.prepack_b) kernel->pack_b(operands->b());
        if (right) {
          operands->reset_c();
          kernel->run(operands->a(), operands->b(), operands->c());
          const Verification v = right->of({}).check();
          result.verified = v.ok;
          result.why = v.failure;
        }
        kernels.push_back(std::move(*kernel));
        of_result.push_back(row.peers.size());
        work.push_back([&k = kernels.back(), &x = *operands](int repeats) {
          for (int i = 0; i < repeats; ++i) k.run(x.a(), x.b(), x.c());
        });
      }
      row.peers.push_back(std::move(result));
    }
    const std::vector<Timing> times = measure(work, o.measure);
    row.time_us = times[0].median_us;
    for (size_t i = 0; i < of_result.size(); ++i) row.peers[of_result[i]].time_us = times[i + 1].median_us;
  } catch (const std::exception& e) { row.error = e.what(); }
  return row;
}

Comparison compare(const std::vector<BenchRow>& rows, const std::string& peer) {
  Comparison out{.peer = peer};
  double logs = 0;
  for (const BenchRow& row : rows) {
    const PeerResult* p = find_peer(row, peer);
    if (!p || p->time_us <= 0 || row.time_us <= 0) continue;
    const double ratio = p->time_us / row.time_us;
    out.worst = out.rows ? std::min(out.worst, ratio) : ratio;
    out.best = std::max(out.best, ratio);
    logs += std::log(ratio);
    ++out.rows;
  }
  if (out.rows) out.geomean = std::exp(logs / static_cast<double>(out.rows));
  return out;
}

Json to_json(const BenchRow& row) {
  Json peers = Json::object(), missing = Json::object();
  for (const PeerResult& p : row.peers) {
    if (p.time_us > 0) {
      peers.set(p.name, p.time_us);
    } else {
      missing.set(p.name, p.why);
    }
    if (p.time_us > 0 && row.checked && !p.verified) missing.set(p.name, "wrong result: " + p.why);
  }
  Json out = Json::object({{"problem", to_string(row.problem)},
                           {"name", row.name},
                           {"config", row.config},
                           {"source", row.source},
                           {"predicted_us", row.predicted_us},
                           {"time_us", row.time_us},
                           {"gflops", row.gflops()},
                           {"peers", std::move(peers)},
                           {"verified", row.checked ? Json(row.verified) : Json()}});
  if (missing.size()) out.set("peer_notes", std::move(missing));
  if (!row.error.empty()) out.set("error", row.error);
  return out;
}

Json bench_summary(const std::vector<BenchRow>& rows) {
  size_t failed = 0, wrong = 0, timed = 0;
  double logs = 0;
  for (const BenchRow& row : rows) {
    if (row.time_us <= 0) {
      ++failed;
      continue;
    }
    wrong += row.checked && !row.verified;
    logs += std::log(row.gflops());
    ++timed;
  }
  Json peers = Json::object();
  for (const std::string& name : peer_names(rows)) {
    const Comparison c = compare(rows, name);
    peers.set(name, Json::object({{"rows", static_cast<int64_t>(c.rows)},
                                  {"geomean", c.geomean},
                                  {"worst", c.worst},
                                  {"best", c.best}}));
  }
  return Json::object({{"rows", static_cast<int64_t>(rows.size())},
                       {"failed", static_cast<int64_t>(failed)},
                       {"wrong", static_cast<int64_t>(wrong)},
                       {"gflops", timed ? std::exp(logs / static_cast<double>(timed)) : 0},
                       {"peers", std::move(peers)}});
}

std::string to_csv(const std::vector<BenchRow>& rows) {
  const std::vector<std::string> names = peer_names(rows);
  std::string out = "name,op,dtype,layout,m,n,k,problem,config,predicted_us,time_us,gflops,verified";
  for (const std::string& name : names) out += ',' + name + "_us";
  out += '\n';
  for (const BenchRow& row : rows) {
    const Problem& p = row.problem;
    const GemmView v = lower(p);
    out += csv_cell(row.name) + ',' + std::string(to_string(p.op)) + ',' + types_text(p) + ',' +
           std::string(to_string(p.layout)) + ',' + std::to_string(v.m) + ',' + std::to_string(v.n) + ',' +
           std::to_string(v.k) + ',' + csv_cell(to_string(p)) + ',' + csv_cell(row.config) + ',' +
           number_text(static_cast<float>(row.predicted_us)) + ',' +
           number_text(static_cast<float>(row.time_us)) + ',' +
           number_text(static_cast<float>(row.gflops())) + ',' +
           (row.checked ? row.verified ? "yes" : "no" : "");
    for (const std::string& name : names) {
      const PeerResult* peer = find_peer(row, name);
      out +=
          ',' + (peer && peer->time_us > 0 ? number_text(static_cast<float>(peer->time_us)) : std::string());
    }
    out += '\n';
  }
  return out;
}

}  // namespace tessera
