// golden [--update] FOLDER [NAME...]: what is selected and generated for the cases of FOLDER/cases.txt,
// compared with the reviewed files beside it. Nothing here depends on the machine: every case is planned for
// a named architecture.
//
// Per case NAME.txt holds the choice, its features, how many candidates each rule refuses and the candidates
// in predicted order; NAME.source the unit in its short form, or why there is none.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "core/arch_spec.h"
#include "model/features.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"

using namespace tessera;
namespace fs = std::filesystem;

namespace {

// Long lists are shown in part and held to by the hash of the rest.
constexpr size_t kShown = 100;

struct Case {
  std::string name, arch;
  Problem problem;
};

std::vector<Case> read_cases(const fs::path& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    if (trim(line).empty() || line[0] == '#') continue;
    const auto cells = split(line, '|');
    if (cells.size() != 3) throw Error(ErrorCode::bad_input, path.string() + ": '" + line + "'");
    cases.push_back({std::string(trim(cells[0])), std::string(trim(cells[1])), Problem::parse(cells[2])});
  }
  return cases;
}

std::string text_of(const Case& c, Dispatcher& dispatcher) {
  const Explanation all = dispatcher.explain(c.problem, /*with_rejected=*/true);
  const ArchSpec& arch = find_arch(c.arch);
  const KernelConfig& choice = all.choice.config;

  std::string out = "problem  " + to_string(c.problem) + "\narch     " + c.arch + "\nchoice   " +
                    (all.why_none.empty() ? to_string(choice) + "\n\nfeatures of the choice\n"
                                          : "none: " + all.why_none + "\n");
  std::vector<double> values(features().size());
  compute_features(lower(c.problem), choice, arch, values);
  for (size_t i = 0; i < values.size() && all.why_none.empty(); ++i) {
    if (!tells(features()[i], arch.backend)) continue;
    out += format("  %-22s %.5g\n", std::string(features()[i].name).c_str(), values[i]);
  }

  std::map<std::string, int> refused;
  for (const auto& r : all.rejected) ++refused[r.rule];
  out += format("\nrefused: %zu\n", all.rejected.size());
  for (const auto& [rule, count] : refused) out += format("  %6d %s\n", count, rule.c_str());

  out += format("\ncandidates: %zu, predicted us\n", all.candidates.size());
  std::string rest;
  for (size_t i = 0; i < all.candidates.size(); ++i) {
    const std::string line =
        format("  %9.4g %s\n", all.candidates[i].predicted_us, to_string(all.candidates[i].config).c_str());
    (i < kShown ? out : rest) += line;
  }
  if (!rest.empty())
    out +=
        "  and " + std::to_string(all.candidates.size() - kShown) + " more, " + content_hash({rest}) + "\n";
  return out;
}

// A refusal is an outcome like any other.
template <class F>
std::string or_error(F&& text) {
  try {
    return text();
  } catch (const Error& e) { return std::string(e.what()) + "\n"; }
}

// The unit without the hash in its symbol, which changes with every edit of a kernel header.
std::string source_of(const Case& c, Dispatcher& dispatcher) {
  return std::regex_replace(dispatcher.emit(c.problem), std::regex("(tsr_[a-z0-9_]+_)[0-9a-f]{32}"),
                            "$1HASH");
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Prints the first line that differs.
void show_difference(const std::string& golden, const std::string& now) {
  const auto old_lines = split(golden, '\n'), new_lines = split(now, '\n');
  size_t i = 0;
  while (i < old_lines.size() && i < new_lines.size() && old_lines[i] == new_lines[i]) ++i;
  auto line = [i](const auto& lines) {
    return i < lines.size() ? std::string(lines[i]) : std::string("(end)");
  };
  std::printf("    line %zu\n    golden: %s\n    now:    %s\n", i + 1, line(old_lines).c_str(),
              line(new_lines).c_str());
}

int run(int argc, char** argv) {
  bool update = false;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--update")
      update = true;
    else
      words.emplace_back(argv[i]);
  }
  if (words.empty()) return std::fprintf(stderr, "usage: golden [--update] FOLDER [NAME...]\n"), 2;
  const fs::path folder = words[0];
  const std::vector<std::string> only(words.begin() + 1, words.end());

  int compared = 0, differing = 0;
  for (const Case& c : read_cases(folder / "cases.txt")) {
    if (!only.empty() && std::find(only.begin(), only.end(), c.name) == only.end()) continue;
    Dispatcher dispatcher({.device = "null:" + c.arch});
    const std::pair<fs::path, std::string> files[] = {
        {folder / (c.name + ".txt"), or_error([&] { return text_of(c, dispatcher); })},
        {folder / (c.name + ".source"), or_error([&] { return source_of(c, dispatcher); })}};
    for (const auto& [path, now] : files) {
      ++compared;
      const std::string golden = read(path);
      if (golden == now) continue;
      ++differing;
      if (update) {
        std::ofstream(path, std::ios::binary) << now;
        std::printf("wrote %s\n", path.filename().c_str());
      } else {
        std::printf("%s differs\n", path.filename().c_str());
        show_difference(golden, now);
      }
    }
  }
  std::printf("%d golden files, %d %s\n", compared, differing, update ? "rewritten" : "differ");
  if (compared == 0) return std::fprintf(stderr, "no such case\n"), 1;
  if (differing && !update)
    std::printf("if the change is meant: ./dev golden --update, and say in the commit why\n");
  return differing && !update;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
