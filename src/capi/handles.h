// Handles that C code holds. A handle is an index, a generation and a kind rather than an address, so that
// one that was destroyed, is of another kind or never was one is known for what it is. An object whose handle
// is destroyed ends with the last call that uses it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tessera/error.h"

namespace tessera::capi {

enum class Kind : uint64_t { dispatcher = 1, kernel = 2, registry = 3 };

// Objects of one kind. find() takes no lock; slots are reused, never freed.
template <class T, Kind kind>
class HandleTable {
  struct Slot;

 public:
  // An object in use, or none.
  class Held {
   public:
    Held() = default;
    Held(HandleTable* table, Slot* slot) : table_(table), slot_(slot) {}
    Held(Held&& other) noexcept : table_(other.table_), slot_(std::exchange(other.slot_, nullptr)) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (slot_) table_->let_go(*slot_);
    }
    explicit operator bool() const { return slot_; }
    T& operator*() const { return *slot_->object; }
    T* operator->() const { return slot_->object.get(); }

   private:
    HandleTable* table_ = nullptr;
    Slot* slot_ = nullptr;
  };

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
        free_.reserve((owned_.size() + 1) * kChunkSlots);  // let_go() must find room
        owned_.push_back(std::make_unique<Chunk>());
        chunk.store(owned_.back().get(), std::memory_order_release);
      }
    }
    Slot& slot = *this->slot(index);
    slot.object = std::move(object);
    slot.index = index;
    ++slot.users;
    const uint32_t generation = ++slot.generation;  // odd: live
    return reinterpret_cast<void*>(uint64_t{generation} << 32 | index << kKindBits | uint64_t(kind));
  }

  // Nothing when `handle` is no live handle of this kind. The use is counted before the generation is looked
  // at, and remove() changes the generation before it looks at the count: one of them sees the other.
  Held find(const void* handle) {
    const auto bits = reinterpret_cast<uint64_t>(handle);
    const uint64_t generation = bits >> 32;
    if ((bits & kKindMask) != uint64_t(kind) || generation % 2 == 0) return {};
    Slot* slot = this->slot((bits & 0xffffffff) >> kKindBits);
    if (!slot) return {};
    ++slot->users;
    Held held(this, slot);
    if (slot->generation != generation) return {};
    return held;
  }

  // From here on `handle` is none. False when it was none before.
  bool remove(const void* handle) {
    const Held held = find(handle);
    if (!held) return false;
    Slot& slot = *this->slot((reinterpret_cast<uint64_t>(handle) & 0xffffffff) >> kKindBits);
    {
      std::lock_guard lock(mutex_);
      if (slot.generation != reinterpret_cast<uint64_t>(handle) >> 32) return false;
      ++slot.generation;
    }
    let_go(slot);  // the table's own use
    return true;
  }

 private:
  static constexpr uint64_t kKindBits = 3, kKindMask = 7, kChunkSlots = 256, kChunks = 4096;
  struct Slot {
    std::atomic<uint32_t> generation{0}, users{0};  // while it is live the table is one of the users
    uint64_t index = 0;
    std::shared_ptr<T> object;
  };
  using Chunk = std::array<Slot, kChunkSlots>;

  Slot* slot(uint64_t index) const {
    if (index >= kChunks * kChunkSlots) return nullptr;
    Chunk* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    return chunk ? &(*chunk)[index % kChunkSlots] : nullptr;
  }

  void let_go(Slot& slot) {
    if (--slot.users) return;
    std::shared_ptr<T> last;  // ends when the lock is released
    std::lock_guard lock(mutex_);
    if (slot.users || !slot.object) return;  // found again meanwhile, by a handle of old; or by two of them
    last = std::move(slot.object);
    free_.push_back(slot.index);
  }

  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> owned_;
  std::vector<uint64_t> free_;
  uint64_t count_ = 0;
};

}  // namespace tessera::capi
