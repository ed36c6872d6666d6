#include "tessera/epilogue.h"

#include <algorithm>

#include "base/text.h"

namespace tessera {
namespace {

using enum Broadcast;
constexpr std::array<EpilogueKindInfo, kEpilogueKindCount> kKinds = {{
    {"bias", true, row, 0, {}, "add D[n]"},
    {"add", true, none, 0, {}, "add D[m,n]"},
    {"add_row", true, row, 0, {}, "add D[n] to every row"},
    {"add_col", true, column, 0, {}, "add D[m] to every column"},
    {"mul", true, none, 0, {}, "multiply by D[m,n]"},
    {"mul_row", true, row, 0, {}, "multiply every row by D[n]"},
    {"mul_col", true, column, 0, {}, "multiply every column by D[m]"},
    {"scale", false, none, 1, {1.0f}, "multiply by a number"},
    {"relu", false, none, 0, {}, "max(x, 0)"},
    {"leaky_relu", false, none, 1, {0.01f}, "x < 0 ? slope * x : x"},
    {"gelu", false, none, 0, {}, "x * Phi(x), with erf"},
    {"gelu_tanh", false, none, 0, {}, "the tanh approximation of gelu"},
    {"silu", false, none, 0, {}, "x * sigmoid(x)"},
    {"sigmoid", false, none, 0, {}, "1 / (1 + exp(-x))"},
    {"tanh", false, none, 0, {}, "tanh(x)"},
    {"hardswish", false, none, 0, {}, "x * clamp(x + 3, 0, 6) / 6"},
    {"clamp", false, none, 2, {0.0f, 6.0f}, "min(max(x, lo), hi)"},
    {"quant",
     false,
     none,
     2,
     {1.0f, 0.0f},
     "round-to-even(x * scale) + zero_point, saturated by the output type"},
}};

std::string kind_names() {
  std::string names;
  for (const auto& row : kKinds) names += (names.empty() ? "" : " ") + std::string(row.name);
  return names;
}

}  // namespace

const EpilogueKindInfo& info(EpilogueKind k) { return kKinds[static_cast<size_t>(k)]; }

int Epilogue::d_count() const {
  return static_cast<int>(
      std::count_if(begin(), end(), [](const EpilogueStep& s) { return info(s.kind).takes_d; }));
}

std::string to_string(const Epilogue& e) {
  if (e.empty()) return "none";
  std::string text;
  for (const EpilogueStep& step : e) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!text.empty()) text += ',';
    text += kind.name;
    for (int i = 0; i < kind.params; ++i) text += ':' + number_text(step.params[i]);
  }
  return text;
}

std::optional<Epilogue> parse_epilogue(std::string_view text, std::string* why) {
  std::string unread;
  if (!why) why = &unread;
  Epilogue out;
  if (text == "none") return out;
  for (std::string_view word : split(text, ',')) {
    auto parts = split(word, ':');
    auto row = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& r) { return r.name == parts[0]; });
    if (row == kKinds.end()) {
      *why = "unknown epilogue step '" + std::string(parts[0]) + "'; one of " + kind_names();
      return std::nullopt;
    }
    if (out.count == Epilogue::kMaxSteps) {
      *why = "epilogue has more than " + std::to_string(Epilogue::kMaxSteps) + " steps";
      return std::nullopt;
    }
    EpilogueStep& step = out.steps[out.count++];
    step.kind = static_cast<EpilogueKind>(row - kKinds.begin());
    step.params = row->defaults;
    if (parts.size() > 1 && parts.size() != static_cast<size_t>(row->params) + 1) {
      *why = "epilogue step '" + std::string(row->name) + "' takes " + std::to_string(row->params) +
             " number(s)";
      return std::nullopt;
    }
    for (size_t i = 1; i < parts.size(); ++i) {
      auto value = parse_float(parts[i]);
      if (!value) {
        *why = "'" + std::string(parts[i]) + "' in epilogue step '" + std::string(word) +
               "' is not a finite number";
        return std::nullopt;
      }
      step.params[i - 1] = *value + 0.0f;  // -0 is 0
    }
    if (step.kind == EpilogueKind::clamp && step.params[0] > step.params[1]) {
      *why = "clamp bounds are in the wrong order: '" + std::string(word) + "'";
      return std::nullopt;
    }
  }
  if (out.d_count() > Epilogue::kMaxD) {
    *why = "epilogue reads more than " + std::to_string(Epilogue::kMaxD) + " D tensors";
    return std::nullopt;
  }
  return out;
}

}  // namespace tessera
