// Starts the program and reads what it prints.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "base/process.h"
#include "tessera/json.h"

namespace tessera {

inline const char* const kProblem = "'gemm m=20 n=24 k=28 dtype=f32'";

// Of types that the standard pack leaves out: its kernel is compiled, or comes from a cache or a pack of the
// test's.
inline const char* const kUnpackedProblem = "'gemm m=20 n=24 k=28 dtype=f16'";

struct Outcome {
  int status;
  std::string text;  // stdout, or stdout and stderr
};

inline Outcome shell(const std::string& arguments, bool with_stderr) {
  const std::string command = TESSERA_BINARY_DIR "/bin/tessera " + arguments;
  const ProcessResult r = run_process({"sh", "-c", command + (with_stderr ? "" : " 2>/dev/null")}, "", 120);
  EXPECT_EQ(r.end, ProcessResult::End::exited) << r.describe();
  return {r.code, r.out};
}

inline std::string text_of(const std::string& arguments, int status = 0) {
  const Outcome o = shell(arguments, true);
  EXPECT_EQ(o.status, status) << arguments << "\n" << o.text;
  return o.text;
}

inline Json json_of(const std::string& arguments) {
  const Outcome o = shell(arguments + " --json", false);
  EXPECT_EQ(o.status, 0) << arguments;
  return Json::parse(o.text, arguments);
}

inline std::set<std::string> keys(const Json& j) {
  std::set<std::string> out;
  for (const auto& [key, value] : j.members()) out.insert(key);
  return out;
}

inline bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace tessera
