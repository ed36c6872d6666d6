// What the benchmarks that write one result file have in common.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/json.h"

namespace tessera {

// "--name VALUE" of the command line, and where its value goes.
struct Setting {
  std::string_view name;
  std::variant<std::string*, int64_t*> to;
  int64_t least = 1;  // of a number
};

// Error(bad_input) for what is no setting, and for values that are none; `source`: whose head lists them.
void read_settings(int argc, char** argv, std::span<const Setting> settings, const std::string& source);

// Of no samples 0.
double quantile(std::vector<double> v, double q);

inline const char* verdict(bool good) { return good ? "ok" : "MISSED"; }

// Says where, too.
void write_result(const std::string& path, const Json& result);

// The exit status: what run() returns, or 1 with what it threw on stderr.
template <class F>
int exit_status(const F& run) {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}

}  // namespace tessera
