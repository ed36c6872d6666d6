#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "tessera/error.h"

namespace tessera {

void in_parallel(size_t count, int jobs, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto loop = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;) {
      try {
        work(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
    }
  };
  const size_t wanted =
      jobs > 0 ? static_cast<size_t>(jobs) : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  others.reserve(std::min(wanted, count));
  try {
    while (others.size() + 1 < std::min(wanted, count)) others.emplace_back(loop);
  } catch (const std::system_error&) {}  // the threads there are do it all
  loop();
  for (std::thread& t : others) t.join();
  if (error) std::rethrow_exception(error);
}

void need_threads(int count) {
  std::latch all_there(1);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(std::max(count, 0)));
  std::string why;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&] { all_there.wait(); });
  } catch (const std::system_error& e) { why = e.what(); }
  all_there.count_down();
  for (std::thread& t : threads) t.join();
  if (why.empty()) return;
  throw Error(ErrorCode::device,
              "of " + std::to_string(count) + " more threads " + std::to_string(threads.size()) +
                  " could be started: " + why,
              "use fewer threads, or raise the limits of processes and memory");
}

}  // namespace tessera
