// What is applied to alpha * A B + beta * C before it is stored: a chain of element-wise steps, in order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

// clang-format off
enum class EpilogueKind : uint8_t {
  bias, add, add_row, add_col, mul, mul_row, mul_col,              // take a D tensor
  scale, relu, leaky_relu, gelu, gelu_tanh, silu, sigmoid, tanh,   // element-wise
  hardswish, clamp, quant,
};
// clang-format on
inline constexpr int kEpilogueKindCount = 18;

enum class Broadcast : uint8_t { none, row, column };  // full m x n; one row of n; one column of m

struct EpilogueKindInfo {
  std::string_view name;
  bool takes_d;         // reads the next D tensor
  Broadcast broadcast;  // its shape, when it does
  int params;           // numbers after the name, ':'-separated
  std::array<float, 2> defaults;
  std::string_view doc;
};

const EpilogueKindInfo& info(EpilogueKind k);

struct EpilogueStep {
  EpilogueKind kind = EpilogueKind::relu;
  std::array<float, 2> params{};
  bool operator==(const EpilogueStep&) const = default;
};

// Text form: "bias,add,relu", "mul_row,clamp:0:6"; "none" when empty. A fixed-size value, so problems copy
// and hash without allocating.
struct Epilogue {
  static constexpr int kMaxSteps = 8;
  static constexpr int kMaxD = 5;  // four D tensors and a bias

  std::array<EpilogueStep, kMaxSteps> steps{};
  int count = 0;

  bool empty() const { return count == 0; }
  int d_count() const;  // D tensors read, in the order of their steps
  const EpilogueStep* begin() const { return steps.data(); }
  const EpilogueStep* end() const { return steps.data() + count; }
  // Those of begin() to end() that there is room for: an epilogue that nothing has checked may count more.
  std::span<const EpilogueStep> known() const {
    return std::span(steps).first(static_cast<size_t>(std::clamp(count, 0, kMaxSteps)));
  }
  bool operator==(const Epilogue& o) const {  // what lies past the count does not matter
    return count == o.count && std::equal(known().begin(), known().end(), o.steps.begin());
  }
};

std::string to_string(const Epilogue& e);
// nullopt with the reason in *why.
std::optional<Epilogue> parse_epilogue(std::string_view text, std::string* why = nullptr);

}  // namespace tessera
