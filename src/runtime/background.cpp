#include "runtime/background.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "base/interrupt.h"
#include "base/log.h"

namespace tessera {

struct Background::State {
  mutable std::mutex mutex;
  mutable std::condition_variable idle;
  std::deque<std::function<void()>> jobs;  // the first is under way while `running`
  std::thread thread;
  bool running = false;
  std::atomic<bool> stop{false};
  pid_t owner = getpid();

  void work() {
    const InterruptedBy scope(stop);
    std::unique_lock lock(mutex);
    while (!jobs.empty() && !stop) {
      std::function<void()> job = std::move(jobs.front());
      lock.unlock();
      try {
        job();
      } catch (...) {}
      job = {};  // what it holds goes before it counts as done
      lock.lock();
      jobs.pop_front();
    }
    jobs.clear();
    running = false;
    idle.notify_all();
  }
};

Background::Background() : state_(new State) {}

Background::~Background() {
  State* const s = state_;
  if (s->owner != getpid()) return;  // the thread is another process's
  {
    std::lock_guard lock(s->mutex);
    s->stop = true;
  }
  if (s->thread.joinable()) s->thread.join();
  delete s;
}

void Background::add(std::function<void()> job) {
  State* known = state_;
  if (known->owner != getpid()) {  // of a child process: what the parent had is the parent's
    State* const own = new State;
    if (state_.compare_exchange_strong(known, own)) {
      known = own;
    } else {
      delete own;  // another thread was first
    }
  }
  State& s = *known;
  std::unique_lock lock(s.mutex);
  if (s.stop) return;
  s.jobs.push_back(std::move(job));
  if (s.running) return;
  if (s.thread.joinable()) s.thread.join();  // it let go of the mutex for good
  s.running = true;
  try {
    s.thread = std::thread([&s] { s.work(); });
  } catch (const std::system_error& e) {  // no more threads: what is there serves
    s.running = false;
    s.jobs.clear();
    s.idle.notify_all();
    lock.unlock();
    log(LogLevel::info, std::string("nothing is timed in the background: ") + e.what());
  }
}

size_t Background::pending() const {
  const State& s = *state_;
  if (s.owner != getpid()) return 0;
  std::lock_guard lock(s.mutex);
  return s.jobs.size();
}

void Background::settle() const {
  const State& s = *state_;
  if (s.owner != getpid()) return;  // in a forked child, where nothing runs
  std::unique_lock lock(s.mutex);
  s.idle.wait(lock, [&] { return !s.running; });
}

const std::atomic<bool>& Background::stop() const { return state_.load()->stop; }

}  // namespace tessera
