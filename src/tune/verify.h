// Whether a result is right, element by element.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tune/reference.h"

namespace tessera {

struct Verification {
  bool ok = false;
  // Of the element that is worst in relation to its bound: distance from the exact value, and what the errors
  // of the sum and the rounding to C's type may add up to. Which results are right is finer: those that a sum
  // within its error rounds to.
  double max_err = 0, bound = 0;
  size_t checked = 0;  // elements
  bool complete = true;
  std::string failure;  // "" or the first wrong element, or what else was written
};

// The right answer to one problem on given operands; many results may be checked against it.
class Verifier {
 public:
  // Keeps a reference to `operands`.
  explicit Verifier(const Operands& operands, Arithmetic arithmetic = {});
  Verifier(const Operands& operands, Sample sample, Arithmetic arithmetic = {});

  // Of what is in operands.c() now, the surroundings included.
  Verification check() const;

 private:
  const Operands& operands_;
  Sample sample_;
  std::vector<Expected> expected_, expected_bias_grad_;
};

// One for each arithmetic that is asked for: kernels that add up alike share what is right.
class Verifiers {
 public:
  // Keeps a reference to `operands`.
  explicit Verifiers(const Operands& operands) : Verifiers(operands, sample_of(operands.view())) {}
  Verifiers(const Operands& operands, Sample sample) : operands_(operands), sample_(std::move(sample)) {}

  const Verifier& of(Arithmetic arithmetic) {
    return made_.try_emplace(arithmetic, operands_, sample_, arithmetic).first->second;
  }

 private:
  const Operands& operands_;
  Sample sample_;
  std::map<Arithmetic, Verifier> made_;
};

}  // namespace tessera
