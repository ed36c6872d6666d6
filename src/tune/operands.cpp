#include "tune/operands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/memory.h"
#include "base/text.h"
#include "tessera/error.h"
#include "tune/element.h"

namespace tessera {
namespace {

uint64_t mixed(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr size_t kPalette = 4096;

// Elements are drawn from a palette of encoded values: filling then converts nothing.
struct Palette {
  std::vector<unsigned char> bytes;
  std::array<double, kPalette> values;
};

double drawn(DType t, FillKind kind, size_t i) {
  const double unit = static_cast<double>(mixed(i) >> 11) * 0x1p-53;  // [0, 1)
  switch (t) {
    case DType::i8: return static_cast<double>(i % 256) - 128;
    case DType::u8: return static_cast<double>(i % 256);
    case DType::i32: return static_cast<double>(i % 201) - 100;
    default: return kind == FillKind::integers ? static_cast<double>(i % 9) - 4 : round_to(t, 2 * unit - 1);
  }
}

Palette make_palette(DType t, FillKind kind) {
  Palette p;
  p.bytes.resize(kPalette * static_cast<size_t>(bytes_of(t)));
  for (size_t i = 0; i < kPalette; ++i) {
    p.values[i] = drawn(t, kind, i);
    store_element(t, p.bytes.data(), static_cast<int64_t>(i), p.values[i]);
  }
  return p;
}

const Palette& palette(DType t, FillKind kind) {
  static const std::vector<Palette> all = [] {
    std::vector<Palette> made;
    for (int i = 0; i < kDTypeCount; ++i) {
      for (FillKind k : {FillKind::uniform, FillKind::integers})
        made.push_back(make_palette(static_cast<DType>(i), k));
    }
    return made;
  }();
  return all[static_cast<size_t>(t) * 2 + static_cast<size_t>(kind)];
}

size_t draw(uint64_t seed, int64_t index) { return mixed(seed ^ static_cast<uint64_t>(index)) % kPalette; }

// Seeds of the tensors of one problem.
enum Tensor : uint64_t { kA, kB, kC, kD, kBiasGrad = kD + Epilogue::kMaxD };
uint64_t seed_of(uint64_t seed, uint64_t tensor) { return mixed(seed * 16 + tensor); }

// All-ones is NaN in every floating type; integers get a value that small sums do not reach.
unsigned char poison_byte(DType t) { return info(t).is_float ? 0xff : 0xa5; }

GuardedBuffer filled(DType t, FillKind kind, uint64_t seed, int64_t count, size_t align) {
  GuardedBuffer buffer(static_cast<size_t>(count * bytes_of(t)), align);
  fill(t, kind, seed, buffer.data(), count);
  buffer.freeze();
  return buffer;
}

// Filling more memory than there is would have the system end this program, or another.
void require_memory(const Problem& p, const GemmView& v) {
  constexpr double kAlwaysThere = 64 << 20, kMiB = 1 << 20;
  double bytes = 0;
  const auto add = [&](DType t, int64_t elements) {
    bytes += static_cast<double>(elements) * static_cast<double>(bytes_of(t));
  };
  add(v.a.type, v.a.extent);
  add(v.b.type, v.b.extent);
  add(p.out, v.c.extent);
  for (const EpilogueStep& step : v.epilogue) {
    if (info(step.kind).takes_d) add(v.d, v.d_elements(info(step.kind).broadcast));
  }
  if (bytes <= kAlwaysThere) return;
  const auto available = static_cast<double>(available_memory());
  if (bytes > available) {
    throw Error(ErrorCode::device,
                format("the operands take %.0f MiB, and %.0f MiB of memory are to be had", bytes / kMiB,
                       available / kMiB),
                "use a smaller problem");
  }
}

template <class F>
void for_each_row(const GemmView& v,
                  F visit) {  // visit(index of the row's first element); not channels first
  for (int64_t g = 0; g < v.groups; ++g) {
    for (int64_t i = 0; i < v.m; ++i) visit(g * v.c.group_stride + i * v.c.row_stride);
  }
}

}  // namespace

double fill_value(DType t, FillKind kind, uint64_t seed, int64_t index) {
  return palette(t, kind).values[draw(seed, index)];
}

void fill(DType t, FillKind kind, uint64_t seed, void* out, int64_t count) {
  const unsigned char* source = palette(t, kind).bytes.data();
  auto* bytes = static_cast<unsigned char*>(out);
  const auto size = static_cast<size_t>(bytes_of(t));
  const auto copy = [&](auto word) {
#pragma omp parallel for schedule(static) if (count > (1 << 18))
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(bytes + static_cast<size_t>(i) * sizeof(word), source + draw(seed, i) * sizeof(word),
                  sizeof(word));
    }
  };
  if (size == 4) {
    copy(uint32_t{});
  } else if (size == 2) {
    copy(uint16_t{});
  } else {
    copy(uint8_t{});
  }
}

Operands::Operands(const Problem& problem, FillKind kind, uint64_t seed, size_t align)
    : problem_(problem), view_(lower(problem)), kind_(kind), seed_(seed) {
  require_memory(problem_, view_);
  a_ = filled(view_.a.type, kind, seed_of(seed, kA), view_.a.extent, align);
  b_ = filled(view_.b.type, kind, seed_of(seed, kB), view_.b.extent, align);
  for (const EpilogueStep& step : view_.epilogue) {
    const EpilogueKindInfo& row = info(step.kind);
    if (!row.takes_d) continue;
    d_.push_back(
        filled(view_.d, kind, seed_of(seed, kD + d_.size()), view_.d_elements(row.broadcast), align));
  }
  c_ = GuardedBuffer(static_cast<size_t>(view_.c.extent * bytes_of(problem.out)), align);
  if (problem.bias_grad) {
    bias_grad_ = GuardedBuffer(static_cast<size_t>(view_.groups * view_.m) * sizeof(float), align);
  }
  reset_c();
}

double Operands::bias_grad_before(int64_t index) const {
  return fill_value(DType::f32, kind_, seed_of(seed_, kBiasGrad), index);
}

int64_t Operands::c_index(int64_t g, int64_t i, int64_t j) const {
  if (!view_.channels_first) {
    return g * view_.c.group_stride + i * view_.c.row_stride + j * view_.c.col_stride;
  }
  const ConvShape& s = problem_.conv;
  if (problem_.op == Op::conv_bwd_weight) {  // row k, column (tap, c)
    const int64_t taps = view_.n / s.c;
    return ((g * s.k + i) * s.c + j % s.c) * taps + j / s.c;
  }
  const int64_t pixels = view_.m / s.n;
  return ((i / pixels * s.g + g) * view_.n + j) * pixels + i % pixels;
}

double Operands::c_before(int64_t index) const {
  return fill_value(problem_.out, kind_, seed_of(seed_, kC), index);
}

void Operands::reset_c() {
  c_is_new_ = true;
  std::memset(c_.data(), poison_byte(problem_.out), c_.size());
  if (problem_.bias_grad) {
    std::memset(bias_grad_.data(), poison_byte(DType::f32), bias_grad_.size());
    for (int64_t i = 0; problem_.beta != 0 && i < view_.groups * view_.m; ++i)
      store_element(DType::f32, bias_grad_.data(), i, bias_grad_before(i));
  }
  if (problem_.beta == 0) return;
  if (view_.channels_first) {  // dense
    for (int64_t i = 0; i < view_.c.extent; ++i) store_element(problem_.out, c_.data(), i, c_before(i));
    return;
  }
  for_each_row(view_, [&](int64_t first) {
    for (int64_t j = 0; j < view_.n; ++j) {
      store_element(problem_.out, c_.data(), first + j, c_before(first + j));
    }
  });
}

namespace {

constexpr size_t kBand = 4096;
constexpr unsigned char kBandByte = 0xa5;

}  // namespace

DeviceCopies& DeviceCopies::operator=(DeviceCopies&& other) noexcept {
  clear();
  memory_ = std::exchange(other.memory_, nullptr);
  blocks_ = std::move(other.blocks_);
  other.blocks_.clear();
  return *this;
}

void DeviceCopies::clear() noexcept {
  for (void* block : blocks_) memory_->release(block);
  blocks_.clear();
}

void DeviceCopies::use(DeviceMemory* memory) {
  clear();
  memory_ = memory;
}

void* DeviceCopies::allocate(size_t bytes) {
  blocks_.push_back(memory_->allocate(bytes));
  return blocks_.back();
}

void* DeviceCopies::add(const GuardedBuffer& host) {
  void* data = static_cast<char*>(allocate(host.size() + 2 * kBand)) + kBand;
  renew(data, host);
  return data;
}

void DeviceCopies::renew(void* to, const GuardedBuffer& host) {
  memory_->upload(to, host.data(), host.size());
  guard(to, host.size());
}

void DeviceCopies::renew(void* to, unsigned char byte, size_t bytes) {
  memory_->fill(to, byte, bytes);
  guard(to, bytes);
}

void DeviceCopies::guard(void* data, size_t bytes) {
  memory_->fill(static_cast<char*>(data) - kBand, kBandByte, kBand);
  memory_->fill(static_cast<char*>(data) + bytes, kBandByte, kBand);
}

std::string DeviceCopies::fetch(size_t index, const GuardedBuffer& host) const {
  memory_->download(host.data(), static_cast<char*>(blocks_[index]) + kBand, host.size());
  return damage(index, host.size());
}

std::string DeviceCopies::damage(size_t index, size_t bytes) const {
  const char* block = static_cast<char*>(blocks_[index]);
  const auto whole = [&](const char* band) {
    std::array<unsigned char, kBand> found;
    memory_->download(found.data(), band, kBand);
    return std::all_of(found.begin(), found.end(), [](unsigned char c) { return c == kBandByte; });
  };
  if (!whole(block)) return "bytes before its start were written";
  if (!whole(block + kBand + bytes)) return "bytes behind its end were written";
  return "";
}

Buffers Operands::bind(const Kernel& kernel) {
  if (DeviceMemory* memory = kernel.memory()) {
    if (device_.memory() != memory) {
      device_.use(memory);
      on_device_ = {};
      on_device_.c = device_.add(c_);  // the first: see fetch()
      on_device_.a = device_.add(a_);
      on_device_.b = device_.add(b_);
      for (size_t i = 0; i < d_.size(); ++i) on_device_.d[i] = device_.add(d_[i]);
      b_bytes_ = b_.size();
      if (problem_.prepack_b) pack_on_device(kernel);
    } else if (c_is_new_ && problem_.beta == 0) {
      device_.renew(on_device_.c, poison_byte(problem_.out), c_.size());
    } else if (c_is_new_) {
      device_.renew(on_device_.c, c_);
    }
    c_is_new_ = false;
    return on_device_;
  }
  Buffers buffers{.a = a_.data(), .b = b_.data(), .c = c_.data()};
  for (size_t i = 0; i < d_.size(); ++i) buffers.d[i] = d_[i].data();
  if (problem_.bias_grad) buffers.bias_grad = reinterpret_cast<float*>(bias_grad_.data());
  if (problem_.prepack_b) {
    packed_b_ = GuardedBuffer(kernel.packed_b_bytes());
    kernel.pack_b(b_.data(), packed_b_.data());
    buffers.b = packed_b_.data();
  }
  return buffers;
}

// Between bands, in place of B, of which a copy is not kept.
void Operands::pack_on_device(const Kernel& kernel) {
  packed_b_ = GuardedBuffer(kernel.packed_b_bytes());
  std::memset(packed_b_.data(), kBandByte, packed_b_.size());
  packed_on_device_.use(device_.memory());
  void* packed = packed_on_device_.add(packed_b_);
  kernel.pack_b(on_device_.b, packed);
  on_device_.b = packed;
  b_bytes_ = packed_b_.size();
}

std::vector<Buffers> Operands::bind_sets(const Kernel& kernel) {
  constexpr size_t kBeyondCaches = size_t{128} << 20;
  constexpr size_t kAlign = 4096;
  const auto room = [](size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; };
  std::vector<Buffers> out = {bind(kernel)};
  DeviceMemory* memory = kernel.memory();
  if (!memory) return out;
  size_t bytes = room(a_.size()) + room(b_bytes_) + room(c_.size());
  for (const GuardedBuffer& d : d_) bytes += room(d.size());
  const size_t count = std::min(kMostSets, kBeyondCaches / bytes + 1);
  sets_.use(memory);
  char* at = count > 1 ? static_cast<char*>(sets_.allocate((count - 1) * bytes)) : nullptr;
  const auto place = [&](size_t size, const void* from) {
    char* to = std::exchange(at, at + room(size));
    if (from) memory->copy(to, from, size);
    return to;
  };
  while (out.size() < count) {
    Buffers b;
    b.a = place(a_.size(), on_device_.a);
    b.b = place(b_bytes_, on_device_.b);
    b.c = place(c_.size(), nullptr);
    for (size_t i = 0; i < d_.size(); ++i) b.d[i] = place(d_[i].size(), on_device_.d[i]);
    out.push_back(b);
  }
  return out;
}

void Operands::fetch(const Kernel& kernel) {
  kernel.wait();
  device_damage_.clear();
  if (!kernel.memory()) return;
  device_damage_ = device_.fetch(0, c_);
  if (!device_damage_.empty()) {
    device_damage_ = "C on the device: " + device_damage_;
  } else if (problem_.prepack_b) {
    device_damage_ = packed_on_device_.damage(0, b_bytes_);
    if (!device_damage_.empty()) device_damage_ = "packed B on the device: " + device_damage_;
  }
}

std::string Operands::damage() const {
  if (!device_damage_.empty()) return device_damage_;
  std::vector<std::pair<std::string, const GuardedBuffer*>> buffers = {
      {"A", &a_}, {"B", &b_}, {"C", &c_}, {"packed B", &packed_b_}, {"bias_grad", &bias_grad_}};
  for (size_t i = 0; i < d_.size(); ++i) buffers.emplace_back("D" + std::to_string(i), &d_[i]);
  for (const auto& [name, buffer] : buffers) {
    if (std::string what = buffer->damage(); !what.empty()) return name + ": " + what;
  }
  if (view_.c.extent == view_.groups * view_.m * view_.n) return "";
  // Gaps between rows and batches of C: whatever no row covers must still be poison.
  const auto size = static_cast<size_t>(bytes_of(problem_.out));
  const auto* bytes = static_cast<const unsigned char*>(c_.data());
  std::vector<bool> covered(c_.size() / size);
  for_each_row(view_, [&](int64_t first) { std::fill_n(covered.begin() + first, view_.n, true); });
  for (size_t i = 0; i < covered.size(); ++i) {
    if (covered[i]) continue;
    for (size_t byte = i * size; byte < (i + 1) * size; ++byte) {
      if (bytes[byte] != poison_byte(problem_.out)) {
        return "C: element " + std::to_string(i) + ", in the gap between rows or batches, was written";
      }
    }
  }
  return "";
}

}  // namespace tessera
