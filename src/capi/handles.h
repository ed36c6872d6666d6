// Handles that C code holds. A handle is an index, a generation and a kind rather than an address, so that
// one that was destroyed, is of another kind or never was one is known for what it is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/error.h"

namespace tessera::capi {

enum class Kind : uint64_t { dispatcher = 1, kernel = 2, registry = 3 };

// Objects of one kind. find() takes no lock; slots are reused, never freed.
template <class T, Kind kind>
class HandleTable {
 public:
  void* add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    uint64_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      index = count_++;
      if (index >= kChunks * kChunkSlots) throw Error(ErrorCode::device, "too many handles", "destroy some");
      auto& chunk = chunks_[index / kChunkSlots];
      if (!chunk.load(std::memory_order_relaxed)) {
        owned_.push_back(std::make_unique<Chunk>());
        chunk.store(owned_.back().get(), std::memory_order_release);
      }
    }
    Slot& slot = *this->slot(index);
    slot.object = std::move(object);
    const uint32_t generation = slot.generation.load(std::memory_order_relaxed) + 1;  // odd: in use
    slot.generation.store(generation, std::memory_order_release);
    return reinterpret_cast<void*>(uint64_t{generation} << 32 | index << kKindBits | uint64_t(kind));
  }

  // Null when `handle` is no live handle of this kind.
  T* find(const void* handle) const {
    const auto bits = reinterpret_cast<uint64_t>(handle);
    if ((bits & kKindMask) != uint64_t(kind)) return nullptr;
    Slot* slot = this->slot((bits & 0xffffffff) >> kKindBits);
    return slot && slot->generation.load(std::memory_order_acquire) == bits >> 32 ? slot->object.get()
                                                                                  : nullptr;
  }

  // The object, no longer reachable by the handle; null when there was none.
  std::shared_ptr<T> remove(const void* handle) {
    std::lock_guard lock(mutex_);
    if (!find(handle)) return nullptr;
    const uint64_t index = (reinterpret_cast<uint64_t>(handle) & 0xffffffff) >> kKindBits;
    Slot& slot = *this->slot(index);
    slot.generation.fetch_add(1, std::memory_order_release);
    free_.push_back(index);
    return std::move(slot.object);
  }

 private:
  static constexpr uint64_t kKindBits = 3, kKindMask = 7, kChunkSlots = 256, kChunks = 4096;
  struct Slot {
    std::atomic<uint32_t> generation{0};
    std::shared_ptr<T> object;
  };
  using Chunk = std::array<Slot, kChunkSlots>;

  Slot* slot(uint64_t index) const {
    if (index >= kChunks * kChunkSlots) return nullptr;
    Chunk* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    return chunk ? &(*chunk)[index % kChunkSlots] : nullptr;
  }

  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> owned_;
  std::vector<uint64_t> free_;
  uint64_t count_ = 0;
};

}  // namespace tessera::capi
