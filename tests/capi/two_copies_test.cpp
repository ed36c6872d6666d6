// Two copies of the library in one process (two wheels; a program's own and a package's), besides the C++
// library that this program is linked with: each has its own handles, errors, interrupts and kernels.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/fs.h"
#include "sanitized.h"
#include "tessera/dispatcher.h"
#include "tessera/kernel.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

// The functions of one copy.
struct Copy {
  template <class F>
  F* function(F*, const char* name) const {
    return reinterpret_cast<F*>(dlsym(library, name));
  }

  void* library;
};
#define TSR_OF(copy, name) ((copy).function(&name, #name))

// Multiplies ones through tsr_run; whether every element of C is k.
bool multiplies(const Copy& copy, tsr_dispatcher* d, int m, int n, int k) {
  const std::string problem = "gemm m=" + std::to_string(m) + " n=" + std::to_string(n) +
                              " k=" + std::to_string(k) + " dtype=f32 layout=rrr";
  const std::vector<float> a(static_cast<size_t>(m * k), 1.f), b(static_cast<size_t>(k * n), 1.f);
  std::vector<float> c(static_cast<size_t>(m * n), -1.f);
  tsr_buffers buffers{};
  buffers.size = sizeof buffers;
  buffers.a = a.data();
  buffers.b = b.data();
  buffers.c = c.data();
  if (TSR_OF(copy, tsr_run)(d, problem.c_str(), &buffers) != TSR_OK) {
    ADD_FAILURE() << problem << ": " << TSR_OF(copy, tsr_last_error)();
    return false;
  }
  return c == std::vector<float>(c.size(), static_cast<float>(k));
}

class TwoCopies : public testing::Test {
 protected:
  void SetUp() override {
    if (TESSERA_SANITIZED) GTEST_SKIP() << "a sanitizer takes the second copy's objects for the first's";
    Dl_info self{};
    ASSERT_TRUE(dladdr(reinterpret_cast<const void*>(&tsr_version), &self));
    const std::string path = directory_.path() + "/libtessera_c.so";
    std::filesystem::copy_file(self.dli_fname, path);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(library) << dlerror();
    second_ = Copy{library};
    ASSERT_NE(TSR_OF(second_, tsr_version), &tsr_version);
  }

  tsr_dispatcher* open(const Copy& copy) {
    tsr_dispatcher* d = nullptr;
    EXPECT_EQ(TSR_OF(copy, tsr_dispatcher_create)(R"({"threads": 1, "database": "none"})", nullptr, nullptr,
                                                  nullptr, &d),
              TSR_OK)
        << TSR_OF(copy, tsr_last_error)();
    return d;
  }

  TempDir directory_{temp_directory()};
  Copy first_{RTLD_DEFAULT}, second_{nullptr};
};

TEST_F(TwoCopies, EachRunsItsOwnKernels) {
  tsr_dispatcher *one = open(first_), *two = open(second_);
  Dispatcher cpp({.threads = 1});
  for (int i = 1; i <= 6; ++i) {  // kernels of different kinds by turns, loaded from equal descriptors
    EXPECT_TRUE(multiplies(first_, one, i, 16, 4));
    EXPECT_TRUE(multiplies(second_, two, 4, 8 * i, 64));
    cpp.get(Problem::parse("gemm m=" + std::to_string(9 * i) + " n=1 k=3 dtype=f32"));
  }
  EXPECT_TRUE(multiplies(first_, one, 4, 8, 64));
  EXPECT_TRUE(multiplies(second_, two, 1, 16, 4));
  TSR_OF(second_, tsr_dispatcher_destroy)(two);
  tsr_dispatcher_destroy(one);
}

TEST_F(TwoCopies, AClosedHandleOfOneIsNotTheOthers) {
  tsr_dispatcher *one = open(first_), *two = open(second_);
  tsr_dispatcher_destroy(one);
  EXPECT_TRUE(multiplies(second_, two, 3, 5, 7));
  TSR_OF(second_, tsr_dispatcher_destroy)(two);
}

TEST_F(TwoCopies, ErrorsAndInterruptsAreTheirOwn) {
  tsr_dispatcher *one = open(first_), *two = open(second_);
  tsr_kernel* k = nullptr;
  EXPECT_EQ(tsr_get(one, "gemm m=1", &k), TSR_BAD_INPUT);
  EXPECT_EQ(TSR_OF(second_, tsr_get)(two, "gemm m=1 n=1 k=1 dtype=f31", &k), TSR_BAD_INPUT);
  EXPECT_FALSE(std::strstr(tsr_last_error(), "f31"));
  EXPECT_TRUE(std::strstr(TSR_OF(second_, tsr_last_error)(), "f31"));
  TSR_OF(second_, tsr_interrupt)(1);
  char* json = nullptr;
  EXPECT_EQ(TSR_OF(second_, tsr_job)("cache", R"({"action": "stats"})", nullptr, nullptr, &json),
            TSR_INTERRUPTED);
  EXPECT_EQ(tsr_job("cache", R"({"action": "stats"})", nullptr, nullptr, &json), TSR_OK);
  tsr_free(json);
  TSR_OF(second_, tsr_interrupt)(0);
  TSR_OF(second_, tsr_dispatcher_destroy)(two);
  tsr_dispatcher_destroy(one);
}

TEST_F(TwoCopies, OneGoesAndTheOtherStays) {
  tsr_dispatcher *one = open(first_), *two = open(second_);
  EXPECT_TRUE(multiplies(second_, two, 2, 16, 8));
  EXPECT_TRUE(multiplies(first_, one, 2, 16, 8));
  TSR_OF(second_, tsr_dispatcher_destroy)(two);
  dlclose(second_.library);
  EXPECT_TRUE(multiplies(first_, one, 2, 16, 8));
  EXPECT_TRUE(multiplies(first_, one, 5, 24, 8));
  tsr_dispatcher_destroy(one);
}

}  // namespace
}  // namespace tessera
