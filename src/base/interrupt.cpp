#include "base/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "tessera/error.h"

namespace tessera {
namespace {

constexpr long kPatienceNs = 500'000'000;

// A signal that comes twice within this time is one: `timeout` sends it to the program and to its group.
constexpr int64_t kOnceNs = 100'000'000;

std::atomic<bool> stop{false}, finish_step{false}, requested{false};
std::atomic<int> came{SIGINT};
std::atomic<int64_t> came_ns{-kOnceNs};
timer_t patience;
thread_local const std::atomic<bool>* owners_stop = nullptr;

// Only what a signal handler may call.
void cut_short(int) {
  constexpr char kText[] = "\ninterrupted\n";
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(interrupted_status());
}

void on_interrupt(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  if (now_ns - came_ns.exchange(now_ns) < kOnceNs && came == signal) return;
  came = signal;
  if (finish_step && !requested.exchange(true)) return;
  if (stop.exchange(true)) cut_short(0);
  itimerspec once{};
  once.it_value.tv_nsec = kPatienceNs;
  timer_settime(patience, 0, &once, nullptr);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

[[noreturn]] void call_off() { throw Error(ErrorCode::interrupted, "called off before it was done"); }

}  // namespace

void catch_interrupts() {
  sigevent expiry{};
  expiry.sigev_notify = SIGEV_SIGNAL;
  expiry.sigev_signo = SIGALRM;
  if (timer_create(CLOCK_MONOTONIC, &expiry, &patience) != 0)
    return;  // Ctrl-C ends the program as it always does
  handle(SIGALRM, cut_short);
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_interrupt);
  struct sigaction hang_up {};
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN)
    handle(SIGHUP, on_interrupt);
}

int interrupted_status() { return 128 + came; }

bool interrupted() { return stop || (owners_stop && *owners_stop); }

InterruptedBy::InterruptedBy(const std::atomic<bool>& flag) : outer_(owners_stop) { owners_stop = &flag; }
InterruptedBy::~InterruptedBy() { owners_stop = outer_; }

void set_interrupted(bool value) { stop = value; }

void finish_step_on_interrupt() { finish_step = true; }
bool stop_requested() { return requested || stop; }

void throw_if_interrupted() {
  if (interrupted()) call_off();
}

void throw_if_stopped() {
  if (interrupted() || stop_requested()) call_off();
}

}  // namespace tessera
