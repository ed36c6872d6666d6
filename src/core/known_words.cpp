#include "core/known_words.h"

namespace tessera {

std::string unknown_word(const Problem& p) {
  struct Member {
    std::string_view name;
    int value, last;
  };
  const int last_type = kDTypeCount - 1;
  for (const Member& m : {Member{"op", int(p.op), kOpCount - 1},
                          {"a", int(p.a), last_type},
                          {"b", int(p.b), last_type},
                          {"out", int(p.out), last_type},
                          {"d", int(p.d), last_type},
                          {"layout", int(p.layout), kLayoutCount - 1}}) {
    if (m.value > m.last) return std::string(m.name) + " is " + std::to_string(m.value) + ", which is none";
  }
  const Epilogue& e = p.epilogue;
  if (e.count < 0 || e.count > Epilogue::kMaxSteps) {
    return "epilogue has " + std::to_string(e.count) + " steps, at most " +
           std::to_string(Epilogue::kMaxSteps);
  }
  for (const EpilogueStep& step : e) {
    if (int(step.kind) >= kEpilogueKindCount)
      return "epilogue has a step " + std::to_string(int(step.kind)) + ", which is none";
  }
  return {};
}

}  // namespace tessera
