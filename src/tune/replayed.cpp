#include "tune/replayed.h"

#include <algorithm>

namespace tessera {

double Replayed::operator()(int repeats) {
  constexpr double kNear = 1.5;  // of as many runs as this the time is that of the recording, in proportion
  constexpr int kMost = 256;
  const int least = static_cast<int>(sets_.size());
  const int wanted = std::clamp(repeats, least, std::max(kMost, least));
  if (!recording_ || wanted > count_ * kNear || count_ > wanted * kNear) {
    recording_ = kernel_.memory()->record(wanted, [&](int i, void* stream) {
      Buffers b = sets_[static_cast<size_t>(i) % sets_.size()];
      b.stream = stream;
      kernel_.run_unchecked(b);
    });
    count_ = wanted;
    recording_->replay();
  }
  return recording_->replay() / count_ * repeats;
}

}  // namespace tessera
