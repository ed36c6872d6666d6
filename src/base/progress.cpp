#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"

namespace tessera {
namespace {

constexpr double kFirst = 0.3, kBarEvery = 0.1, kLineEvery = 5;  // seconds
constexpr size_t kBarWidth = 24;

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool on_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) && !(term && std::string_view(term) == "dumb");
}

}  // namespace

std::string duration_text(double seconds) {
  const long s = std::lround(std::max(seconds, 0.0));
  if (s < 60) return format("%ld s", s);
  if (s < 3600) return format("%ld:%02ld", s / 60, s % 60);
  return format("%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

Progress::Progress(std::string label, size_t total)
    : label_(std::move(label)),
      total_(total),
      terminal_(on_terminal()),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (terminal_ && shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void Progress::note(std::string_view line) {
  clear();
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

void Progress::update(size_t done, size_t total, std::string_view what) {
  total_ = total;
  update(done, what);
}

void Progress::update(size_t done, std::string_view what) {
  const auto now = Clock::now();
  const double since_start = std::chrono::duration<double>(now - start_).count();
  const double since_last = std::chrono::duration<double>(now - last_).count();
  const bool finished = done >= total_;
  if (terminal_ ? since_start < kFirst || (since_last < kBarEvery && !finished) : since_last < kLineEvery)
    return;
  last_ = now;
  const double part = total_ ? static_cast<double>(std::min(done, total_)) / static_cast<double>(total_) : 1;
  const std::string left =
      done > 0 && !finished ? ", " + duration_text(since_start / part * (1 - part)) + " left" : "";
  if (!terminal_) {
    std::fprintf(stderr, "%s: %zu of %zu%s: %.*s\n", label_.c_str(), done, total_, left.c_str(),
                 static_cast<int>(what.size()), what.data());
    return;
  }
  const auto full = static_cast<size_t>(part * kBarWidth);
  std::string line = label_ + " [" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "] " +
                     std::to_string(done) + "/" + std::to_string(total_) + left + "  " + std::string(what);
  const size_t width = terminal_width();
  if (line.size() >= width) line.resize(width - 1);
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace tessera
