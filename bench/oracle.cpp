#include "oracle.h"

#include <algorithm>
#include <numeric>

#include "core/gemm_view.h"
#include "runtime/selection.h"
#include "tessera/error.h"

namespace tessera {

namespace {

void print_row(const char* what, std::vector<double> efficiency) {
  if (efficiency.empty()) return;
  std::sort(efficiency.begin(), efficiency.end());
  const double sum = std::accumulate(efficiency.begin(), efficiency.end(), 0.0);
  std::printf("%-26s mean %5.1f%%  P10 %5.1f%%  least %5.1f%%  (%zu problems)\n", what,
              100 * sum / static_cast<double>(efficiency.size()), 100 * efficiency[efficiency.size() / 10],
              100 * efficiency[0], efficiency.size());
}

}  // namespace

Oracle::Oracle(const std::string& csv, std::string device, const ArchSpec& arch)
    : device_(std::move(device)), arch_(arch), csv_(std::fopen(csv.c_str(), "w")) {
  if (!csv_) throw Error(ErrorCode::io, "cannot write " + csv);
  std::fprintf(csv_,
               "problem,measured,legal,best_us,best_config,choice,choice_us,top3_us,analytic_choice,"
               "analytic_us,analytic_top3_us\n");
}

void Oracle::add(const Problem& p, const std::map<std::string, double>& us) {
  const GemmView view = lower(p);
  const auto best3 = [&](const char* model) {
    DispatcherOptions options;
    options.device = device_;
    options.model = model;
    std::vector<std::string> out;
    for (const Candidate& c : ranked_candidates({p, view, arch_, options, 3}))
      out.push_back(to_string(c.config));
    out.resize(std::min<size_t>(out.size(), 3));
    return out;
  };
  const auto time_of = [&](const std::string& config) {
    const auto found = us.find(config);
    return found == us.end() ? 0.0 : found->second;
  };
  const auto quickest = [&](const std::vector<std::string>& configs) {
    double least = 0;
    for (const std::string& c : configs) {
      if (const double t = time_of(c); t > 0 && (least == 0 || t < least)) least = t;
    }
    return least;
  };
  const std::vector<std::string> chosen = best3(""), analytic = best3("analytic");
  const double choice = time_of(chosen[0]);
  if (choice == 0) {
    ++left_out_;
    std::printf("%s: its choice was not measured\n", to_string(p).c_str());
    return;
  }
  const auto best = std::min_element(us.begin(), us.end(),
                                     [](const auto& x, const auto& y) { return x.second < y.second; });
  const double top3 = quickest(chosen);
  const size_t legal = configs_on(device_, view, arch_).size();
  std::fprintf(csv_, "%s,%zu,%zu,%.5g,%s,%s,%.5g,%.5g,%s,", to_string(p).c_str(), us.size(), legal,
               best->second, best->first.c_str(), chosen[0].c_str(), choice, top3, analytic[0].c_str());
  if (const double first = time_of(analytic[0]); first > 0) {
    std::fprintf(csv_, "%.5g,%.5g", first, quickest(analytic));
    analytic_.push_back(best->second / first);
    analytic_top3_.push_back(best->second / quickest(analytic));
  } else {
    std::fprintf(csv_, ",");
  }
  std::fprintf(csv_, "\n");
  first_.push_back(best->second / choice);
  top3_.push_back(best->second / top3);
  measured_ += us.size();
  legal_ += legal;
}

void Oracle::print() const {
  std::printf("%zu of %zu legal configurations measured\n", measured_, legal_);
  print_row("the shipped model's choice", first_);
  print_row("the best of its first 3", top3_);
  print_row("the analytic model's", analytic_);
  print_row("the best of its first 3", analytic_top3_);
  if (left_out_) std::printf("%zu problems left out\n", left_out_);
}

}  // namespace tessera
