#include "base/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "tessera/error.h"

namespace tessera {
namespace {

constexpr long kPatienceNs = 500'000'000;

std::atomic<bool> stop{false}, finish_step{false}, requested{false};
timer_t patience;
thread_local const std::atomic<bool>* owners_stop = nullptr;

// Only what a signal handler may call.
void cut_short(int) {
  constexpr char kText[] = "\ninterrupted\n";
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(kInterruptedStatus);
}

void on_interrupt(int) {
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

}  // namespace

void catch_interrupts() {
  sigevent expiry{};
  expiry.sigev_notify = SIGEV_SIGNAL;
  expiry.sigev_signo = SIGALRM;
  if (timer_create(CLOCK_MONOTONIC, &expiry, &patience) != 0)
    return;  // Ctrl-C ends the program as it always does
  handle(SIGALRM, cut_short);
  handle(SIGINT, on_interrupt);
}

bool interrupted() { return stop || (owners_stop && *owners_stop); }

InterruptedBy::InterruptedBy(const std::atomic<bool>& stop) : outer_(owners_stop) { owners_stop = &stop; }
InterruptedBy::~InterruptedBy() { owners_stop = outer_; }

void set_interrupted(bool value) { stop = value; }

void finish_step_on_interrupt() { finish_step = true; }
bool stop_requested() { return requested || stop; }

void throw_if_interrupted() {
  if (interrupted()) throw Error(ErrorCode::io, "interrupted");
}

}  // namespace tessera
