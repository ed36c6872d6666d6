// Tasks of one run dealt out to its threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace tessera {

// task(i, thread) for every i below `count`, on at most `threads` threads counted from 0: the same ones for a
// thread in every run, and none is woken for a single one.
template <class Task>
void deal_out(int64_t count, int threads, const Task& task) {
  threads = static_cast<int>(std::min<int64_t>(threads, count));
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) task(i, 0);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < count; ++i) task(i, omp_get_thread_num());
}

}  // namespace tessera
