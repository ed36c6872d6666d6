// Suites: named problems in a CSV file. Format: suites/README.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/problem.h"

namespace tessera {

struct SuiteRow {
  std::string name;
  Problem problem;
};

struct SuiteOptions {
  std::string dtype;  // instead of the rows' own: "f32", "u8xi8"
  std::string extra;  // words added to every problem's text: "epilogue=bias prepack=b"
  std::string name;   // glob over names; "" = all
};

// `where`: a file, or the name of an embedded suite ("cpu_gemm.csv", "cpu_gemm"). Error(io) when there is
// neither, Error(bad_input) with file and line for a row that cannot be read.
std::vector<SuiteRow> read_suite(const std::string& where, const SuiteOptions& options = {});

// The embedded suite of that name, whatever files there are. Error(internal) when there is none.
std::vector<SuiteRow> embedded_suite(const std::string& name, const SuiteOptions& options = {});

// From text; `origin` is named in errors.
std::vector<SuiteRow> parse_suite(std::string_view text, std::string_view origin,
                                  const SuiteOptions& options = {});

// Names of the embedded suites.
std::vector<std::string> suite_names();

}  // namespace tessera
