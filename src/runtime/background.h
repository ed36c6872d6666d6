// Work that may wait: one thread at a time, started when there is some and ended when there is none.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace tessera {

// Jobs run in the order they came. Thread-safe.
class Background {
 public:
  Background();
  // Jobs not begun are dropped; in the one under way interrupted() (base/interrupt.h) becomes true, on its
  // own thread and on those that take stop(), and it is waited for. In a child that was forked meanwhile,
  // which has no such thread, nothing is waited for and its memory is left alone.
  ~Background();

  // What the job throws is dropped: it reports what matters itself.
  void add(std::function<void()> job);

  size_t pending() const;  // jobs waiting and under way
  void settle() const;     // until there are none

  const std::atomic<bool>& stop() const;  // for InterruptedBy on a job's own threads

 private:
  struct State;
  std::atomic<State*> state_;
};

}  // namespace tessera
