#include "tune/guarded_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/error.h"

namespace tessera {
namespace {

constexpr unsigned char kBandFill = 0xb7, kUnwritten = 0xff;
constexpr size_t kLine = 64;  // of the cache, and the widest load

size_t page() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

GuardedBuffer::GuardedBuffer(size_t bytes, size_t align) : bytes_(bytes) {
  // [no access][band ... data ... band][no access], the band before at least one page.
  const size_t away = align > kLine ? kLine : 0;
  const size_t inner = (bytes + away + align + 2 * page() - 1) / page() * page();
  mapped_ = inner + 2 * page();
  mapping_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const begin = static_cast<char*>(mapping_) + page();
  if (mapping_ == MAP_FAILED || mprotect(begin, inner, PROT_READ | PROT_WRITE) != 0) {
    if (mapping_ != MAP_FAILED) munmap(mapping_, mapped_);
    mapping_ = nullptr;
    throw Error(ErrorCode::device, "cannot allocate " + std::to_string(bytes) + " bytes",
                "use a smaller problem");
  }
  madvise(begin, inner, MADV_HUGEPAGE);
  data_ = begin + (inner - away - bytes) / align * align;
  std::memset(data_, kUnwritten, bytes);
  std::memset(begin, kBandFill, static_cast<size_t>(data_ - begin));
  std::memset(data_ + bytes, kBandFill, static_cast<size_t>(begin + inner - (data_ + bytes)));
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept { *this = std::move(other); }

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_) munmap(mapping_, mapped_);
}

void GuardedBuffer::freeze() {
  if (mapping_) mprotect(static_cast<char*>(mapping_) + page(), mapped_ - 2 * page(), PROT_READ);
}

std::string GuardedBuffer::damage() const {
  if (!mapping_) return "";
  const auto* begin = static_cast<const unsigned char*>(mapping_) + page();
  const auto* end = static_cast<const unsigned char*>(mapping_) + mapped_ - page();
  const auto* data = reinterpret_cast<const unsigned char*>(data_);
  const auto touched = [](unsigned char b) { return b != kBandFill; };
  const auto* before = std::find_if(begin, data, touched);
  if (before != data) return std::to_string(data - before) + " bytes before the start were written";
  const auto* after = std::find_if(data + bytes_, end, touched);
  if (after != end)
    return std::to_string(after - data - static_cast<ptrdiff_t>(bytes_)) + " bytes past the end were written";
  return "";
}

}  // namespace tessera
