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

// What the command line sets. "--name" comes with its value: a list with commas between its own; a bool with
// none. A name without dashes is by position and must be given, a list there is all that follows.
struct Setting {
  std::string_view name;
  std::variant<std::string*, std::vector<std::string>*, int64_t*, double*, bool*> to;
  int least = 1;  // of a number: 1 or 0
};

// What is not given stays as it is. Ends the program, with status 2, where the words are no settings or their
// values none, and after --help, which names `source`: whose head tells what they mean.
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
