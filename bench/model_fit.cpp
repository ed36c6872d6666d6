// Fits the analytic model's costs to measurements of model_oracle or gpu_gemm.
//
//   model_fit ARCH MEASURED.csv...
//
// Coordinate descent on the costs of the architecture file, again and again from costs a little off the best
// so far: the loss is the mean log of (time of the model's choice / best time) over the problems, where
// choices that are predicted nearly alike share the blame, plus a share of the spread of log(predicted /
// measured) so that predictions stay microseconds, plus a little for every cost that leaves its value in the
// file: what the measurements do not tell stays as it is. Prints the costs as JSON for arch/ARCH.json, and
// the scores before and after. Untimed, deterministic.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "model/model.h"
#include "tessera/error.h"

using namespace tessera;

namespace {

struct Measured {
  GemmView view;
  std::vector<KernelConfig> configs;
  std::vector<double> us;
  double best = 1e300;
};

std::vector<Measured> read(int count, char** files) {
  std::map<std::string, Measured> problems;
  for (int i = 0; i < count; ++i) {
    std::ifstream in(files[i]);
    if (!in) throw Error(ErrorCode::io, std::string("cannot read ") + files[i]);
    std::string line, why;
    std::getline(in, line);
    // name,problem,config and somewhere us: texts hold no comma but in an epilogue, which the problems lack.
    const auto names = split(line, ',');
    const auto column = static_cast<size_t>(std::find(names.begin(), names.end(), "us") - names.begin());
    if (column == names.size()) throw Error(ErrorCode::bad_input, "no column us: " + line);
    while (std::getline(in, line)) {
      auto f = split(line, ',');
      if (f.size() <= column) continue;
      auto config = KernelConfig::parse(f[2], &why);
      auto us = parse_number(f[column]);
      if (!config || !us) throw Error(ErrorCode::bad_input, "bad row: " + line);
      Measured& m = problems[std::string(f[1])];
      if (m.us.empty()) m.view = lower(Problem::parse(f[1]));
      m.configs.push_back(*config);
      m.us.push_back(*us);
      m.best = std::min(m.best, *us);
    }
  }
  std::vector<Measured> out;
  for (auto& [text, m] : problems) out.push_back(std::move(m));
  return out;
}

constexpr int kRestarts = 30;

bool is_share(const std::string& cost) { return cost.ends_with("_share"); }

struct Score {
  double loss = 0, mean = 0, p10 = 0, worst = 0, top3 = 0;
};

Score score(const std::vector<Measured>& problems, const ArchSpec& arch, const ArchSpec& file) {
  Score s;
  std::vector<double> efficiency;
  double spread = 0;
  std::vector<double> predicted;
  for (const Measured& m : problems) {
    predicted.resize(m.us.size());
    analytic_model().predict(m.view, arch, m.configs, predicted);
    std::vector<size_t> order(m.us.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const size_t few = std::min<size_t>(3, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(few), order.end(),
                      [&](size_t x, size_t y) { return predicted[x] < predicted[y]; });
    double top3 = 1e300, off = 0;
    for (size_t i = 0; i < few; ++i) top3 = std::min(top3, m.us[order[i]]);
    // Only near the best does the prediction have to be right.
    double weight = 0;
    for (size_t i = 0; i < m.us.size(); ++i) {
      const double w = std::pow(m.best / m.us[i], 2);
      off += w * std::abs(std::log(predicted[i] / m.us[i]));
      weight += w;
    }
    spread += off / weight;
    efficiency.push_back(m.best / m.us[order[0]]);
    s.top3 += m.best / top3;
    constexpr double kAlike = 0.02;
    double regret = 0, shares = 0;
    for (size_t i = 0; i < m.us.size(); ++i) {
      const double share = std::exp((1 - predicted[i] / predicted[order[0]]) / kAlike);
      regret += share * std::log(m.us[i] / m.best);
      shares += share;
    }
    s.loss += regret / shares;
  }
  const double n = static_cast<double>(problems.size());
  s.loss = (s.loss + 0.15 * spread) / n;
  constexpr double kMoved = 0.002;
  for (size_t i = 0; i < arch.costs.size(); ++i)
    s.loss += kMoved * std::pow(std::log(arch.costs[i].second / file.costs[i].second), 2);
  s.top3 /= n;
  std::sort(efficiency.begin(), efficiency.end());
  for (double e : efficiency) s.mean += e / n;
  s.p10 = efficiency[efficiency.size() / 10];
  s.worst = efficiency[0];
  return s;
}

// The problems the model judges worst, with what it chose and what was best.
void print_worst(const std::vector<Measured>& problems, const ArchSpec& arch, size_t count) {
  std::vector<std::pair<double, std::string>> lines;
  for (const Measured& m : problems) {
    std::vector<double> predicted(m.us.size());
    analytic_model().predict(m.view, arch, m.configs, predicted);
    const size_t chosen =
        static_cast<size_t>(std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
    const size_t best = static_cast<size_t>(std::min_element(m.us.begin(), m.us.end()) - m.us.begin());
    lines.emplace_back(
        m.us[best] / m.us[chosen],
        format("%lldx%lldx%lld %s: chose %s, %.2f us (predicted %.2f); best %s, %.2f us (predicted %.2f)",
               static_cast<long long>(m.view.m), static_cast<long long>(m.view.n),
               static_cast<long long>(m.view.k), std::string(to_string(m.view.layout)).c_str(),
               to_string(m.configs[chosen]).c_str(), m.us[chosen], predicted[chosen],
               to_string(m.configs[best]).c_str(), m.us[best], predicted[best]));
  }
  std::sort(lines.begin(), lines.end());
  for (size_t i = 0; i < std::min(count, lines.size()); ++i) {
    std::fprintf(stderr, "%5.1f%%  %s\n", 100 * lines[i].first, lines[i].second.c_str());
  }
}

void descend(const std::vector<Measured>& problems, const ArchSpec& file, ArchSpec* arch, Score* best,
             std::initializer_list<double> factors) {
  for (double factor : factors) {
    for (int round = 0; round < 6; ++round) {
      bool better = false;
      for (auto& [name, value] : arch->costs) {
        for (double trial : {value * factor, value / factor}) {
          if (trial > 1 && is_share(name)) continue;
          const double old = value;
          value = trial;
          const Score s = score(problems, *arch, file);
          if (s.loss < best->loss - 1e-5) {
            *best = s;
            better = true;
          } else {
            value = old;
          }
        }
      }
      if (!better) break;
    }
  }
}

void print(const char* when, const Score& s) {
  std::fprintf(stderr,
               "%-6s loss %.4f  choice: mean %.1f%%  P10 %.1f%%  worst %.1f%%   best of 3: mean %.1f%%\n",
               when, s.loss, 100 * s.mean, 100 * s.p10, 100 * s.worst, 100 * s.top3);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: model_fit ARCH MEASURED.csv...\n");
    return 2;
  }
  try {
    const ArchSpec& file = find_arch(argv[1]);
    ArchSpec arch = file;
    const auto problems = read(argc - 2, argv + 2);
    Score best = score(problems, arch, file);
    print("before", best);
    descend(problems, file, &arch, &best, {2.0, 1.5, 1.2, 1.1});
    std::mt19937 random(1);
    std::normal_distribution<double> off(0, 0.3);
    for (int restart = 0; restart < kRestarts; ++restart) {
      ArchSpec trial = arch;
      for (auto& [name, value] : trial.costs) {
        const double moved = value * std::exp(off(random));
        if (random() % 4 == 0 && !(moved > 1 && is_share(name))) value = moved;
      }
      Score s = score(problems, trial, file);
      descend(problems, file, &trial, &s, {1.3, 1.1});
      if (s.loss < best.loss) best = s, arch = trial;
    }
    print("after", best);
    print_worst(problems, arch, 12);
    Json costs = Json::object();
    for (const auto& [name, value] : arch.costs) costs.set(name, std::stod(format("%.3g", value)));
    std::printf("\"costs\": %s\n", costs.dump().c_str());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
