#include "cpu_gemm_cases.h"

#include <algorithm>

using tessera::Problem;
using tessera::SuiteRow;

const std::vector<ShapeClass>& shape_classes() {
  static const std::vector<ShapeClass> rows = {
      {"tiny", "all of m, n, k at most 32",
       [](int64_t m, int64_t n, int64_t k) {
         return std::max({m, n, k}) <= 32;
       }},
      {"skinny", "m or n at most 16", [](int64_t m, int64_t n, int64_t) { return std::min(m, n) <= 16; }},
      {"odd", "m, n or k no multiple of 8",
       [](int64_t m, int64_t n, int64_t k) { return m % 8 != 0 || n % 8 != 0 || k % 8 != 0; }},
      {"medium", "all of m, n, k at most 192",
       [](int64_t m, int64_t n, int64_t k) {
         return std::max({m, n, k}) <= 192;
       }},
      {"square", "m and n at least 256, neither 4 times the other",
       [](int64_t m, int64_t n, int64_t) {
         return std::min(m, n) >= 256 && std::max(m, n) < 4 * std::min(m, n);
       }},
      {"tall", "the rest: one side much longer than the other, or a deep k",
       [](int64_t, int64_t, int64_t) { return true; }},
  };
  return rows;
}

const std::string& class_of(const Problem& p) {
  for (const ShapeClass& c : shape_classes()) {
    if (c.holds(p.m, p.n, p.k)) return c.name;
  }
  return shape_classes().back().name;
}

std::vector<SuiteRow> built_in_rows(const std::string& dtype) {
  struct Shape {
    int64_t m, n, k;
    const char* layout;
  };
  const Shape shapes[] = {
      // square
      {256, 256, 256, "rcr"},
      {384, 384, 384, "rcr"},
      {512, 512, 512, "rcr"},
      {768, 768, 768, "rcr"},
      {1024, 1024, 1024, "rcr"},
      {1536, 1536, 1536, "rcr"},
      {2048, 2048, 2048, "rcr"},
      {512, 512, 512, "rrr"},
      {1024, 1024, 1024, "rrr"},
      {512, 512, 512, "crr"},
      {1024, 1024, 1024, "ccr"},
      // medium
      {64, 64, 64, "rcr"},
      {96, 96, 96, "rcr"},
      {128, 128, 128, "rcr"},
      {192, 192, 192, "rcr"},
      {64, 64, 64, "rrr"},
      {128, 128, 128, "rrr"},
      {192, 64, 128, "rrr"},
      // odd
      {37, 129, 255, "rcr"},
      {63, 65, 67, "rcr"},
      {127, 129, 131, "rcr"},
      {255, 257, 253, "rcr"},
      {511, 513, 509, "rcr"},
      {1001, 999, 1003, "rcr"},
      {127, 129, 131, "rrr"},
      {257, 255, 259, "rrr"},
      // tall and deep
      {4096, 64, 256, "rcr"},
      {64, 64, 4096, "rcr"},
      {128, 128, 8192, "rcr"},
      {8192, 32, 512, "rcr"},
      {32, 8192, 512, "rrr"},
      {64, 4096, 4096, "rcr"},
      {2048, 64, 2048, "rrr"},
      // skinny
      {1, 1024, 1024, "rcr"},
      {1, 4096, 4096, "rcr"},
      {1, 4096, 1024, "rrr"},
      {2, 2048, 2048, "rcr"},
      {4, 1024, 1024, "rcr"},
      {4, 4096, 4096, "rcr"},
      {8, 2048, 2048, "rcr"},
      {16, 1024, 1024, "rcr"},
      {16, 4096, 4096, "rcr"},
      {2048, 4, 2048, "rcr"},
      // tiny
      {1, 1, 1, "rcr"},
      {2, 2, 2, "rrr"},
      {4, 4, 4, "rrr"},
      {8, 8, 8, "rcr"},
      {8, 8, 8, "rrr"},
      {5, 7, 9, "rcr"},
      {16, 16, 16, "rcr"},
      {16, 16, 16, "rrr"},
      {17, 13, 31, "rrr"},
      {24, 24, 24, "rcr"},
      {24, 24, 24, "rrr"},
      {32, 32, 32, "rcr"},
      {32, 32, 32, "rrr"},
  };
  std::vector<SuiteRow> rows;
  for (const Shape& s : shapes) {
    const std::string size = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
    rows.push_back({size + "." + s.layout,
                    Problem::parse("gemm m=" + std::to_string(s.m) + " n=" + std::to_string(s.n) +
                                   " k=" + std::to_string(s.k) + " dtype=" + dtype + " layout=" + s.layout)});
  }
  return rows;
}
