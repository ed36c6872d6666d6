// Which GEMMs cpu_gemm runs, and into which class each falls.
#pragma once

#include <string>
#include <vector>

#include "tune/suite.h"

struct ShapeClass {
  std::string name, doc;
  bool (*holds)(int64_t m, int64_t n, int64_t k);
};

// In order: the first that holds.
const std::vector<ShapeClass>& shape_classes();
const std::string& class_of(const tessera::Problem& p);

// The sizes that a suite of real networks lacks.
std::vector<tessera::SuiteRow> built_in_rows(const std::string& dtype);
