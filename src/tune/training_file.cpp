#include "tune/training_file.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "tessera/error.h"
#include "tessera/json.h"

namespace tessera {
namespace {

constexpr int kTrainingVersion = 1;
constexpr std::string_view kConfig = "config ", kProblem = "problem ";

// Names the file and the line in what goes wrong.
class Lines {
 public:
  Lines(std::string_view text, std::string_view origin) : rest_(text), origin_(origin) {}

  bool next(std::string_view* line) {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    *line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return true;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::bad_input, std::string(origin_) + ":" + std::to_string(number_) + ": " + why,
                "write it again: tessera db export FILE.times");
  }

 private:
  std::string_view rest_, origin_;
  int number_ = 0;
};

KernelConfig config_of(std::string_view text, const Lines& lines) {
  try {
    return KernelConfig::read(text);
  } catch (const Error& e) { lines.refuse(e.what_happened()); }
}

void take_times(std::string_view line, const std::vector<KernelConfig>& configs, const Lines& lines,
                const Problem& p, TrainingData& out) {
  std::vector<KernelConfig> measured;
  std::vector<double> times;
  const auto words = split_words(line);
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const auto index = parse_int(words[i]);
    const auto us = parse_number(words[i + 1]);
    if (!index || *index < 0 || *index >= std::ssize(configs) || !us || *us <= 0)
      lines.refuse("no configuration and time: '" + std::string(words[i]) + ' ' + std::string(words[i + 1]) +
                   "'");
    measured.push_back(configs[static_cast<size_t>(*index)]);
    times.push_back(*us);
  }
  if (words.size() < 4 || words.size() % 2) lines.refuse("not two or more times of a problem");
  out.add(p, std::move(measured), std::move(times));
}

}  // namespace

std::string to_text(const TrainingData& data) {
  std::string out = Json::object({{"version", kTrainingVersion},
                                  {"arch", data.arch.name},
                                  {"units", data.arch.compute_units},
                                  {"processor", data.processor},
                                  {"operation", data.operation}})
                        .dump() +
                    '\n';
  std::map<std::string, size_t> index_of;
  std::string body;
  for (const MeasuredProblem& p : data.problems) {
    body += std::string(kProblem) + to_string(p.problem) + '\n';
    for (size_t i = 0; i < p.configs.size(); ++i) {
      const std::string text = to_string(p.configs[i]);
      const auto [found, fresh] = index_of.try_emplace(text, index_of.size());
      if (fresh) out += std::string(kConfig) + text + '\n';
      body += (i ? " " : "") + std::to_string(found->second) + format(" %.5g", p.us[i]);
    }
    body += '\n';
  }
  return out + body;
}

TrainingData parse_training_data(std::string_view text, std::string_view origin) {
  Lines lines(text, origin);
  std::string_view line;
  if (!lines.next(&line)) lines.refuse("empty");
  const Json head = Json::parse(line, origin);
  if (head.at("version").as_int() != kTrainingVersion)
    lines.refuse("of version " + std::to_string(head.at("version").as_int()) + ", not " +
                 std::to_string(kTrainingVersion));
  TrainingData out{find_arch(head.at("arch").as_string()), head.at("operation").as_string(), {}, {}};
  out.arch.compute_units = static_cast<int>(head.at("units").as_int());
  out.processor = head.at("processor").as_string();
  std::vector<KernelConfig> configs;
  while (lines.next(&line)) {
    if (line.starts_with(kConfig)) {
      configs.push_back(config_of(line.substr(kConfig.size()), lines));
      continue;
    }
    if (!line.starts_with(kProblem)) lines.refuse("neither a configuration nor a problem");
    const Problem problem = Problem::parse(line.substr(kProblem.size()));
    if (to_string(problem.op) != out.operation) lines.refuse("not of " + out.operation);
    if (!lines.next(&line)) lines.refuse("a problem without times");
    take_times(line, configs, lines, problem, out);
  }
  if (out.problems.empty()) lines.refuse("no problem");
  return out;
}

}  // namespace tessera
