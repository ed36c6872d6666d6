#include "backend/cpu/streamed_rows.h"

#include "backend/cpu/copy_pieces.h"
#include "core/cache_line.h"
#include "core/tile_math.h"

namespace tessera {

StreamedRows::StreamedRows(const GemmView& view, int tile_n, char* apart, tsr::EpilogueArgs& epilogue)
    : size_(bytes_of(view.c.type)),
      row_(view.c.row_stride * size_),
      step_(row_bytes(view, tile_n)),
      c_(static_cast<char*>(epilogue.c)),
      apart_(apart),
      epilogue_(epilogue) {
  epilogue.c_stride = step_ / size_;
}

// A line before each row for what was left of the panel before.
int64_t StreamedRows::row_bytes(const GemmView& view, int tile_n) {
  return kCacheLine + round_up(tile_n * bytes_of(view.c.type), kCacheLine);
}

void StreamedRows::begin(const PackedBlock& block, int64_t n0, int64_t n1) {
  m0_ = block.m0;
  rows_ = block.rows();
  n0_ = n0;
  n1_ = n1;
}

// The epilogue counts rows and columns from the beginning of C.
void StreamedRows::take(int64_t n) {
  const int64_t before = m0_ * step_ + n * size_;
  epilogue_.c = reinterpret_cast<void*>(reinterpret_cast<intptr_t>(apart_) + kCacheLine - before);
}

void StreamedRows::give(int64_t n, int64_t end) {
  stream_lines_avx512(c_ + m0_ * row_ + n * size_, row_, apart_ + kCacheLine, step_, (end - n) * size_, rows_,
                      n == n0_, end == n1_);
}

}  // namespace tessera
