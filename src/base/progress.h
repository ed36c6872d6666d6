// How far a long job is, on stderr: a bar with the time left on a terminal, a line now and then elsewhere.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace tessera {

class Progress {
 public:
  // `label` names the job. Nothing is shown of a job that is done within a fraction of a second.
  Progress(std::string label, size_t total);
  ~Progress();  // clears the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Called by one thread at a time.
  void update(size_t done, std::string_view what);
  void update(size_t done, size_t total, std::string_view what);

  // Prints a line of text above the bar.
  void note(std::string_view line);

 private:
  void clear();

  std::string label_;
  size_t total_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_, last_;
};

// "8 s", "3:20", "1:02:03".
std::string duration_text(double seconds);

}  // namespace tessera
