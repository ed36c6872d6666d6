// Runs another program to its end: no shell, text in, captured text out, a time limit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ProcessResult {
  enum class End : int { exited, signaled, timed_out, interrupted, not_started };
  End end = End::not_started;
  int code = 0;     // exit status, signal number or errno, by `end`
  std::string out;  // what it wrote to stdout and stderr (the first 16 MiB)
  double seconds = 0;

  bool ok() const { return end == End::exited && code == 0; }
  std::string describe() const;  // "exited with status 1", "was killed by signal 9 (Killed)", ...
};

// argv[0] is a path or a name to look up on PATH. `input` is the program's stdin. The child runs in a process
// group of its own, killed whole when time is up or interrupted() (base/interrupt.h) becomes true, and the
// kernel kills the child when the calling thread dies. `environment`: "NAME=value" entries that replace this
// process's own of that name. Does not throw.
ProcessResult run_process(const std::vector<std::string>& argv, std::string_view input, double timeout_s,
                          const std::vector<std::string>& environment = {});

// The program's path, found on PATH unless `name` has a '/'; "" when there is no such executable file.
std::string find_program(std::string_view name);

}  // namespace tessera
