// Ctrl-C, and SIGTERM and SIGHUP, which mean the same. A program that wants to stop in order says so once;
// nothing here does anything before that.
#pragma once

#include <atomic>

namespace tessera {

// From here on the first Ctrl-C makes interrupted() true, so that loops stop after their step and programs
// that run_process started are killed. What has not ended the program half a second later is cut short: exit
// status interrupted_status(), like a second Ctrl-C. Everything on disk is written aside and renamed,
// so either way nothing is left half done. A program that ignores SIGHUP (nohup) goes on ignoring it.
void catch_interrupts();
bool interrupted();
// The same as Ctrl-C for the loops and programs of this process, and back; ends nothing by itself. Safe in a
// signal handler.
void set_interrupted(bool stop);

// While it lives, interrupted() is also true on this thread once `stop` is: work that one owner alone calls
// off.
class InterruptedBy {
 public:
  explicit InterruptedBy(const std::atomic<bool>& stop);
  ~InterruptedBy();
  InterruptedBy(const InterruptedBy&) = delete;
  InterruptedBy& operator=(const InterruptedBy&) = delete;

 private:
  const std::atomic<bool>* outer_;
};

// For work that ends by itself soon enough: from here on the first Ctrl-C only makes stop_requested() true,
// and the second one ends the program at once with status interrupted_status().
void finish_step_on_interrupt();
bool stop_requested();
void throw_if_stopped();  // Error(interrupted) when stop_requested(), or interrupted()

void throw_if_interrupted();  // Error(interrupted)

// Exit status of an interrupted program: 128 + the signal, 130 for Ctrl-C.
int interrupted_status();

}  // namespace tessera
