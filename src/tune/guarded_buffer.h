// Memory between two guards: pages that may not be touched around bytes that tell whether they were.
#pragma once

#include <cstddef>
#include <string>

namespace tessera {

// `bytes` of page-backed memory, all of them 0xff: NaN in every type of floats, so that what is read before
// it is written shows. The end lies against an inaccessible page as closely as `align` allows, so that
// reading or writing past it stops the program; before the start a band of known bytes tells a write from a
// look. Alignment of the start is `align`, a power of two; beyond that of a cache line the end stays a line
// away from the page.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  explicit GuardedBuffer(size_t bytes, size_t align = 64);
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  ~GuardedBuffer();

  void* data() const { return data_; }
  size_t size() const { return bytes_; }

  // From here on a write to the data stops the program.
  void freeze();

  // "" while the bands before the start and between the end and the page are untouched, else which was
  // written.
  std::string damage() const;

 private:
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tessera
