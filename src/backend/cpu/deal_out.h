// Tasks of one run dealt out to its threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/forked.h"
#include "base/parallel.h"
#include "core/tile_math.h"

namespace tessera {

// Of the threads of parallel regions, for which a forked child would wait for ever.
inline ForkGuard& threads_guard() {
  static ForkGuard guard;
  return guard;
}

// Threads of a parallel region of which so many have work: never fewer than the calling thread's last region
// had. GCC's run time ends the threads that a smaller region does without and starts them again for the next
// larger one (libgomp's team.c), which takes the better part of a millisecond; a thread without work is at
// the end of the region at once.
// Error(device) where there cannot be so many: OpenMP would end the process.
inline int team_for(int threads) {
  thread_local int most = 1;
  if (threads > most) {
    need_threads(threads - most);
    most = threads;
  }
  return most;
}

// work(thread, of how many) on at most `threads` threads counted from 0, and none woken for a single one.
// Error(device) in a child that was forked after threads had been at work.
template <class Work>
void on_threads(int64_t threads, const Work& work) {
  const auto wanted = static_cast<int>(threads);
  if (wanted <= 1) return work(0, 1);
  threads_guard().refuse("run kernels on several threads",
                         "fork before the first run, start workers by exec, or use threads = 1");
  threads_guard().note();
#pragma omp parallel num_threads(team_for(wanted))
  {
    const int thread = omp_get_thread_num(), all = std::min(omp_get_num_threads(), wanted);
    if (thread < all) work(thread, all);
  }
}

// task(i, thread) for every i below `count`, on at most `threads` threads: the same ones for a thread in
// every run.
template <class Task>
void deal_out(int64_t count, int threads, const Task& task) {
  on_threads(std::min<int64_t>(threads, count), [&](int thread, int all) {
    const int64_t end = count * (thread + 1) / all;
    for (int64_t i = count * thread / all; i < end; ++i) task(i, thread);
  });
}

// Threads of `most` that reading and writing so many bytes is worth.
inline int threads_for(int64_t bytes, int most) {
  constexpr int64_t kWorthThread = 32 << 10;  // of fewer bytes waking a thread costs more than it saves
  return static_cast<int>(std::clamp<int64_t>(bytes / kWorthThread, 1, most));
}

// work(group, first row, row behind the last) over the rows of all groups, so many bytes each, on as many of
// `threads` as these are worth.
template <class Work>
void deal_out_rows(int64_t groups, int64_t rows, int64_t row_bytes, int threads, const Work& work) {
  const int most = threads_for(groups * rows * row_bytes, threads);
  const int64_t pieces = std::min(ceil_div(most, groups), rows);
  deal_out(groups * pieces, most, [&](int64_t i, int) {
    const int64_t p = i % pieces;
    work(i / pieces, rows * p / pieces, rows * (p + 1) / pieces);
  });
}

// The same as deal_out where a thread takes the next task as it is done with one.
template <class Task>
void deal_out_in_turn(int64_t count, int threads, const Task& task) {
  std::atomic<int64_t> next{0};
  on_threads(std::min<int64_t>(threads, count), [&](int thread, int) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) task(i, thread);
  });
}

}  // namespace tessera
