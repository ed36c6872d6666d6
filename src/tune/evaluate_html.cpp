#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tune/evaluate.h"

namespace tessera {
namespace {

constexpr double kWidth = 450, kHeight = 270, kEdge = 60;
constexpr size_t kWorst = 20, kFeatures = 15;

constexpr const char* kHead =
    R"(<!doctype html><html lang="en"><meta charset="utf-8"><title>Evaluation</title>
<style>body{font:14px sans-serif;max-width:60em;margin:2em auto}table{border-collapse:collapse;margin:1em 0}
td,th{border:1px solid #bbb;padding:.2em .6em;text-align:right}td.t{text-align:left;font:12px monospace}
svg{border:1px solid #bbb;margin-right:1em}path{fill:none;stroke-width:2}text{font-size:12px}</style>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string percent(double share) { return format("%.1f%%", 100 * share); }

// x, y from 0 to 1, the origin at the lower left.
std::string at(double x, double y) {
  return format("%.1f %.1f", kEdge + x * (kWidth - 2 * kEdge), kHeight - kEdge - y * (kHeight - 2 * kEdge));
}

std::string chart(const char* id, const std::string& inside, const char* x, const char* y) {
  return format("<svg id=\"%s\" width=\"%g\" height=\"%g\">", id, kWidth, kHeight) + inside +
         "<path stroke=\"#000\" d=\"M" + at(0, 1) + "L" + at(0, 0) + "L" + at(1, 0) + "\"/>" +
         format("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>", kWidth / 2, kHeight - 10, x) +
         format("<text x=\"%g\" y=\"20\">%s</text></svg>\n", kEdge, y);
}

// A mark with its text on the x axis, or on the y axis.
std::string tick(double share, const std::string& text, bool upright) {
  const double x = kEdge + share * (kWidth - 2 * kEdge), y = kHeight - kEdge - share * (kHeight - 2 * kEdge);
  return upright ? format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", kEdge - 3, y + 4,
                          text.c_str())
                 : format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", x,
                          kHeight - kEdge + 14, text.c_str());
}

// Share of problems that reach at least an efficiency, from half to all of the best.
std::string distribution(const Evaluation& e, double EvaluatedProblem::*us, const char* colour) {
  std::vector<double> all;
  for (const EvaluatedProblem& p : e.problems) {
    if (p.*us > 0) all.push_back(p.best_us / (p.*us));
  }
  std::sort(all.begin(), all.end());
  std::string path;
  for (int i = 0; i <= 100; ++i) {
    const double limit = 0.5 + i / 200.0;
    const auto reach = all.end() - std::lower_bound(all.begin(), all.end(), limit - 1e-9);
    const double share = all.empty() ? 0 : static_cast<double>(reach) / static_cast<double>(all.size());
    path += (i ? "L" : "M") + at(i / 100.0, share);
  }
  return format("<path stroke=\"%s\" d=\"%s\"/>", colour, path.c_str());
}

std::string scatter(const Evaluation& e) {
  double low = HUGE_VAL, high = 0;
  for (const EvaluatedProblem& p : e.problems) {
    low = std::min({low, p.predicted_us, p.choice_us});
    high = std::max({high, p.predicted_us, p.choice_us});
  }
  const double range = std::max(std::log(high / low), 1e-9);
  std::string out = "<path stroke=\"#bbb\" d=\"M" + at(0, 0) + "L" + at(1, 1) + "\"/>";
  for (double us = std::pow(10, std::ceil(std::log10(low))); us <= high; us *= 10) {
    for (const bool upright : {false, true})
      out += tick(std::log(us / low) / range, format("%g us", us), upright);
  }
  for (const EvaluatedProblem& p : e.problems) {
    out += "<circle r=\"2.5\" fill=\"#06c\" fill-opacity=\".6\" ";
    const std::string point = at(std::log(p.choice_us / low) / range, std::log(p.predicted_us / low) / range);
    const size_t gap = point.find(' ');
    out += "cx=\"" + point.substr(0, gap) + "\" cy=\"" + point.substr(gap + 1) + "\"/>";
  }
  return out;
}

// Bars, longest first.
std::string importance(const Evaluation& e) {
  constexpr double kBar = 16, kName = 200, kLong = 300;
  const size_t count = std::min(e.importance.size(), kFeatures);
  std::string out = format("<svg id=\"importance\" width=\"%g\" height=\"%g\">", kName + kLong + 60,
                           kBar * static_cast<double>(count) + 10);
  for (size_t i = 0; i < count; ++i) {
    const FeatureShare& f = e.importance[i];
    const double y = 5 + kBar * static_cast<double>(i), width = kLong * f.share / e.importance[0].share;
    out += format("<text x=\"%g\" y=\"%g\" text-anchor=\"end\">", kName - 6, y + 12) + escaped(f.name) +
           "</text>" +
           format("<rect x=\"%g\" y=\"%g\" width=\"%.1f\" height=\"%g\" fill=\"#06c\"/>", kName, y, width,
                  kBar - 4) +
           format("<text x=\"%.1f\" y=\"%g\">", kName + width + 4, y + 12) + percent(f.share) + "</text>";
  }
  return out + "</svg>\n";
}

std::string row(const std::string& name, const Json& s) {
  std::string out = "<tr><td class=\"t\">" + escaped(name) + "</td><td>" +
                    std::to_string(s.at("problems").as_int()) + "</td>";
  for (const char* key : {"mean", "median", "p10", "p1", "min", "geomean"})
    out += "<td>" + percent(s.at(key).as_double()) + "</td>";
  return out + "</tr>\n";
}

constexpr const char* kScoreHead =
    "<tr><th></th><th>problems</th><th>mean</th><th>median</th><th>P10</th><th>P1</th><th>min</th>"
    "<th>geomean</th></tr>\n";

}  // namespace

std::string to_html(const Evaluation& e) {
  const Json all = to_json(e);
  std::string out = std::string(kHead) + "<h1>Model " + escaped(e.model) + "</h1>\n<p>" +
                    std::to_string(e.problems.size()) +
                    " problems; efficiency = best time / time of the choice, timed afresh and in turn.</p>\n";
  if (e.problems.empty()) return out + "</html>\n";
  out += "<table id=\"scores\">" + std::string(kScoreHead);
  for (const auto& [key, name] :
       {std::pair{"choice", "first choice"}, std::pair{"top3", "best of its first three"},
        std::pair{"analytic", "analytic model"}, std::pair{"fixed", "one for all"}})
    out += row(name, all.at(key));
  if (!e.peer.empty()) out += row(e.peer, all.at("peer"));
  out += "</table>\n";
  const Json& interval = all.at("choice").at("mean_interval");
  out += "<p>95% interval of the mean: " + percent(interval.at(0).as_double()) + " to " +
         percent(interval.at(1).as_double()) + ".</p>\n";
  std::string ticks;
  for (const double share : {0.0, 0.5, 1.0}) {
    ticks += tick(share, format("%.0f%%", 50 + 50 * share), false) +
             tick(share, format("%.0f%%", 100 * share), true);
  }
  out += chart("distribution",
               ticks + (e.peer.empty() ? "" : distribution(e, &EvaluatedProblem::peer_us, "#999")) +
                   distribution(e, &EvaluatedProblem::analytic_us, "#c60") +
                   distribution(e, &EvaluatedProblem::choice_us, "#06c") +
                   distribution(e, &EvaluatedProblem::top3_us, "#093"),
               "efficiency that a share of the problems reaches",
               e.peer.empty() ? "blue: choice, green: of three, orange: analytic"
                              : "blue: choice, green: of three, orange: analytic, grey: peer");
  out += chart("scatter", scatter(e), "measured time, logarithmic", "predicted time");
  out += "<h2>Regimes</h2><table id=\"regimes\">" + std::string(kScoreHead);
  for (const Json& r : all.at("regimes").items()) out += row(r.at("regime").as_string(), r);
  out +=
      "</table>\n<h2>Worst</h2><table id=\"worst\"><tr><th>efficiency</th><th>problem</th><th>choice</th>"
      "<th>best</th>";
  out += e.peer.empty() ? "</tr>\n" : "<th>" + escaped(e.peer) + " / choice</th></tr>\n";
  std::vector<const EvaluatedProblem*> worst;
  for (const EvaluatedProblem& p : e.problems) worst.push_back(&p);
  std::sort(worst.begin(), worst.end(),
            [](auto* x, auto* y) { return x->best_us * y->choice_us < y->best_us * x->choice_us; });
  worst.resize(std::min(worst.size(), kWorst));
  for (const EvaluatedProblem* p : worst) {
    out += "<tr><td>" + percent(p->best_us / p->choice_us) + "</td><td class=\"t\">" +
           escaped(to_string(p->problem)) + "</td><td class=\"t\">" + escaped(p->choice) +
           "</td><td class=\"t\">" + escaped(p->best) + "</td>";
    if (!e.peer.empty())
      out += p->peer_us > 0 ? format("<td>%.2f</td>", p->peer_us / p->choice_us) : "<td>not offered</td>";
    out += "</tr>\n";
  }
  out += "</table>\n";
  if (!e.importance.empty()) out += "<h2>What the model asks for</h2>" + importance(e);
  return out + "</html>\n";
}

}  // namespace tessera
