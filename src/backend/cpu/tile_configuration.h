// How the AMX tile registers are set up.
#pragma once

#include <cstdint>

#include "cpu/abi.h"

namespace tessera {

constexpr int64_t kTileBytes = 1024;  // of a tile in memory: 16 rows of 64

// Tiles of 16 rows x 64 bytes while it lives. Costs about as much as four multiplications of tiles, so it is
// set up once per piece and not by the kernel.
class TileConfiguration {
 public:
  TileConfiguration() { load(); }
  // Those of one shorter step of `tail` bytes, a multiple of 4, beside whole ones; 0: none.
  explicit TileConfiguration(int64_t tail) {
    if (tail > 0) {
      config_.column_bytes[tsr::kLeftTail] = static_cast<uint16_t>(tail);
      config_.rows[tsr::kRightTail] = static_cast<uint8_t>(tail / 4);
    }
    load();
  }
  // All of both operands `tail` bytes.
  TileConfiguration(int64_t tail, tsr::AmxRegisters registers) {
    const int right = registers.accumulators + registers.lefts;
    for (int left = registers.accumulators; left < right; ++left)
      config_.column_bytes[left] = static_cast<uint16_t>(tail);
    for (int i = right; i < kTiles; ++i) config_.rows[i] = static_cast<uint8_t>(tail / 4);
    load();
  }
  ~TileConfiguration() { asm volatile("tilerelease" ::: "memory"); }
  TileConfiguration(const TileConfiguration&) = delete;
  TileConfiguration& operator=(const TileConfiguration&) = delete;

 private:
  static constexpr int kTiles = 8;

  void load() const { asm volatile("ldtilecfg %0" ::"m"(config_)); }

  struct {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config_;
};

}  // namespace tessera
