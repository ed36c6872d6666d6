#include "program.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <type_traits>

#include "base/fs.h"

namespace tessera {

namespace {

constexpr int kMost = std::numeric_limits<int>::max();

void declare(CLI::App& app, const Setting& s) {
  const std::string name(s.name);
  const bool positional = !name.starts_with("--");
  const auto add = [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    if constexpr (std::is_same_v<T, bool>) {
      app.add_flag(name, *to);
    } else {
      CLI::Option* option = app.add_option(name, *to)->capture_default_str()->required(positional);
      if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        if (!positional) option->delimiter(',')->allow_extra_args(false);
      }
      if constexpr (std::is_arithmetic_v<T>)
        option->check(CLI::Range(static_cast<T>(s.least), static_cast<T>(kMost),
                                 s.least > 0 ? "POSITIVE" : "NONNEGATIVE"));
    }
  };
  std::visit(add, s.to);
}

}  // namespace

void read_settings(int argc, char** argv, std::span<const Setting> settings, const std::string& source) {
  CLI::App app("What the settings mean: the head of " + source);
  for (const Setting& s : settings) declare(app, s);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) { std::exit(app.exit(e) == 0 ? 0 : 2); }
}

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[std::min(v.size() - 1, static_cast<size_t>(q * static_cast<double>(v.size())))];
}

void write_result(const std::string& path, const Json& result) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) make_directories(folder.string());
  write_file_whole(path, result.dump(1) + '\n');
  std::printf("\nwritten: %s\n", path.c_str());
}

}  // namespace tessera
