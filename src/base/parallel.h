// A loop over indices on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera {

// work(i) for each i below count, on `jobs` threads, one of them the caller's; 0 jobs are as many as there
// are cores, and there are never more than indices. Where the system refuses threads it gets by with fewer.
// An exception of work ends the loop: no index is begun any more, and the first one comes out after all have
// stopped.
void in_parallel(size_t count, int jobs, const std::function<void(size_t)>& work);

// Error(device) unless `count` more threads can run at once: they are started, and end. For a library that
// ends the process where it cannot start its own.
void need_threads(int count);

}  // namespace tessera
