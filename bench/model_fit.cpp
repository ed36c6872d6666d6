// Fits the analytic model's costs to measurements of model_oracle, gpu_gemm or a sweep.
//
//   model_fit ARCH MEASURED... [--judge FILE.csv] [--like N] [--write FILE.csv] [--tests 1] [--every N]
//             [--restarts 30] [--worst 12]
//
//   MEASURED  FILE.csv with columns problem, config and us, or FILE.times (models/): its fold for training
//   judge     problems to score before and after; they are left out of what is fitted to
//   like      what was not measured is there too, as the learned model predicts it: the N configurations of
//             each problem that it finds best and the N that the analytic model does, so that a choice that
//             nobody measured is no way out
//   write     only writes to this file what would be fitted to: before a change of the analytic model, since
//             the learned one's predictions are built on it
//   tests     1: to problems of the fold for tests too (models/splits.json), which are left out otherwise
//   every     of the files' problems, in order of their text, each N-th
//
// Coordinate descent on the costs of the architecture file, again and again from costs a little off the best
// so far: the loss is the mean log of (time of the model's choice / best time) over the problems, where
// choices that are predicted nearly alike share the blame, the same of the best of its first three, plus a
// share of the spread of log(predicted / measured) so that predictions stay microseconds, plus a little for
// every cost that leaves its value in the file: what the measurements do not tell stays as it is. Prints the
// costs as JSON for arch/ARCH.json, and the scores before and after. Untimed, deterministic.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/fs.h"
#include "base/text.h"
#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "model/learned.h"
#include "model/model.h"
#include "program.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tune/training_file.h"

using namespace tessera;

namespace {

struct Measured {
  Problem problem;
  GemmView view;
  std::vector<KernelConfig> configs;
  std::vector<double> us;
  double best = 1e300;

  void add(const KernelConfig& c, double time) {
    configs.push_back(c);
    us.push_back(time);
    best = std::min(best, time);
  }
};

struct Options {
  std::string arch, judge, write;
  int64_t like = 0, every = 1, restarts = 30, worst = 12, tests = 0;
  std::vector<std::string> files;
};

Options parse(int argc, char** argv) {
  Options o;
  const Setting settings[] = {{"arch", &o.arch},
                              {"measured", &o.files},
                              {"--judge", &o.judge},
                              {"--write", &o.write},
                              {"--like", &o.like, 0},
                              {"--every", &o.every},
                              {"--restarts", &o.restarts, 0},
                              {"--worst", &o.worst, 0},
                              {"--tests", &o.tests, 0}};
  read_settings(argc, argv, settings, "bench/model_fit.cpp");
  return o;
}

using Problems = std::map<std::string, Measured>;

Measured& of(Problems& problems, const std::string& text) {
  Measured& m = problems[text];
  if (m.us.empty()) m.problem = Problem::parse(text), m.view = lower(m.problem);
  return m;
}

void read_csv(const std::string& file, Problems* problems) {
  std::ifstream in(file);
  if (!in) throw Error(ErrorCode::io, "cannot read " + file);
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
    of(*problems, std::string(f[1])).add(*config, *us);
  }
}

void read(const std::string& file, Problems* problems) {
  if (!file.ends_with(".times")) return read_csv(file, problems);
  const TrainingData data = parse_training_data(read_file(file), file);
  for (const MeasuredProblem& p : data.problems) {
    if (p.fold != Fold::train) continue;
    Measured& m = of(*problems, to_string(p.problem));
    for (size_t i = 0; i < p.us.size(); ++i) m.add(p.configs[i], p.us[i]);
  }
}

// Candidates that were not measured, as the learned model predicts them, in proportion to what was.
void add_like(Measured& m, const ArchSpec& arch, size_t count) {
  const Model& learned = model_for("", arch, m.problem);
  if (&learned == &analytic_model()) return;
  std::vector<double> known(m.us.size());
  learned.predict(m.view, arch, m.configs, known);
  double off = 0, weights = 0;
  for (size_t i = 0; i < known.size(); ++i) {
    const double w = std::pow(m.best / m.us[i], 3);
    off += w * std::log(m.us[i] / known[i]);
    weights += w;
  }
  const double scale = std::exp(off / weights);
  std::set<std::string> measured;
  for (const KernelConfig& c : m.configs) measured.insert(to_string(c));
  const std::vector<KernelConfig> legal = runnable_configs(m.view, arch);
  std::vector<double> guessed(legal.size()), predicted(legal.size());
  learned.predict(m.view, arch, legal, guessed);
  analytic_model().predict(m.view, arch, legal, predicted);
  std::set<size_t> taken;
  for (const auto* by : {&guessed, &predicted}) {
    std::vector<size_t> order(legal.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return (*by)[x] < (*by)[y]; });
    order.resize(std::min(order.size(), count));
    taken.insert(order.begin(), order.end());
  }
  // What the trees have no time of may look quicker than it is: never quicker than what was measured.
  const double least = m.best;
  for (size_t i : taken)
    if (!measured.count(to_string(legal[i]))) m.add(legal[i], std::max(least, guessed[i] * scale));
}

bool is_share(const std::string& cost) { return cost.ends_with("_share"); }

struct Score {
  double loss = 0, mean = 0, p10 = 0, worst = 0, top3 = 0;
};

Score score(const std::vector<Measured>& problems, const ArchSpec& arch, const ArchSpec& file) {
  Score s;
  std::vector<double> efficiency;
  double spread = 0;
  std::vector<double> predicted;
  std::vector<size_t> order;
  for (const Measured& m : problems) {
    predicted.resize(m.us.size());
    analytic_model().predict(m.view, arch, m.configs, predicted);
    order.resize(m.us.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const size_t few = std::min<size_t>(3, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(few), order.end(),
                      [&](size_t x, size_t y) {
                        return predicted[x] < predicted[y] || (predicted[x] == predicted[y] && x < y);
                      });
    double top3 = 1e300, off = 0;
    for (size_t i = 0; i < few; ++i) top3 = std::min(top3, m.us[order[i]]);
    // Only near the best does the prediction have to be right.
    double weight = 0;
    for (size_t i = 0; i < m.us.size(); ++i) {
      const double w = (m.best / m.us[i]) * (m.best / m.us[i]);
      off += w * std::abs(std::log(predicted[i] / m.us[i]));
      weight += w;
    }
    spread += off / weight;
    efficiency.push_back(m.best / m.us[order[0]]);
    s.top3 += m.best / top3;
    constexpr double kAlike = 0.02, kNothing = 0.2;
    double regret = 0, shares = 0;
    for (size_t i = 0; i < m.us.size(); ++i) {
      const double behind = predicted[i] / predicted[order[0]] - 1;
      if (behind > kNothing) continue;
      const double share = std::exp(-behind / kAlike);
      regret += share * std::log(m.us[i] / m.best);
      shares += share;
    }
    s.loss += regret / shares + std::log(top3 / m.best);
  }
  const double n = static_cast<double>(problems.size());
  s.loss = (s.loss + 0.15 * spread) / n;
  constexpr double kMoved = 0.001;
  for (size_t i = 0; i < arch.costs.size(); ++i) {
    if (file.costs[i].second == 0) continue;  // factors do not move it
    s.loss += kMoved * std::pow(std::log(arch.costs[i].second / file.costs[i].second), 2);
  }
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

std::vector<Measured> values_of(Problems problems) {
  std::vector<Measured> out;
  for (auto& [text, m] : problems) out.push_back(std::move(m));
  return out;
}

// As read_csv() reads it.
void write_csv(const std::vector<Measured>& problems, const std::string& path) {
  std::ofstream out(path);
  out << "name,problem,config,us\n";
  for (const Measured& m : problems) {
    for (size_t i = 0; i < m.us.size(); ++i)
      out << ',' << to_string(m.problem) << ',' << to_string(m.configs[i]) << ',' << m.us[i] << '\n';
  }
}

int run(const Options& o) {
  const ArchSpec& file = find_arch(o.arch);
  ArchSpec arch = file;
  Problems fitted, judged;
  for (const std::string& f : o.files) read(f, &fitted);
  if (!o.judge.empty()) read(o.judge, &judged);
  for (const auto& [text, m] : judged) fitted.erase(text);
  if (!o.tests) std::erase_if(fitted, [](const auto& p) { return fold_of(p.second.problem) == Fold::test; });
  std::vector<Measured> problems;
  int64_t index = 0;
  for (Measured& m : values_of(std::move(fitted))) {
    if (index++ % o.every == 0) problems.push_back(std::move(m));
  }
  const std::vector<Measured> judges = values_of(std::move(judged));
  if (o.like) {
    for (Measured& m : problems) add_like(m, file, static_cast<size_t>(o.like));
  }
  if (!o.write.empty()) {
    write_csv(problems, o.write);
    return 0;
  }
  const auto report = [&](const char* when, const Score& s) {
    print(when, s);
    if (!judges.empty()) print("judged", score(judges, arch, file));
  };
  if (problems.empty()) {  // only to be judged
    print("judged", score(judges, arch, file));
    print_worst(judges, arch, static_cast<size_t>(o.worst));
    return 0;
  }
  Score best = score(problems, arch, file);
  report("before", best);
  descend(problems, file, &arch, &best, {2.0, 1.5, 1.2, 1.1});
  report("once", best);
  std::mt19937 random(1);
  std::normal_distribution<double> off(0, 0.3);
  for (int64_t restart = 0; restart < o.restarts; ++restart) {
    ArchSpec trial = arch;
    for (auto& [name, value] : trial.costs) {
      const double moved = value * std::exp(off(random));
      if (random() % 4 == 0 && !(moved > 1 && is_share(name))) value = moved;
    }
    Score s = score(problems, trial, file);
    descend(problems, file, &trial, &s, {1.3, 1.1});
    if (s.loss < best.loss) best = s, arch = trial;
  }
  report("after", best);
  print_worst(judges.empty() ? problems : judges, arch, static_cast<size_t>(o.worst));
  Json costs = Json::object();
  for (const auto& [name, value] : arch.costs) costs.set(name, std::stod(format("%.3g", value)));
  std::printf("\"costs\": %s\n", costs.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status([&] { return run(parse(argc, argv)); });
}
