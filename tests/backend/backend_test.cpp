#include "backend/backend.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "backend/cpu/kernels.h"
#include "tune/verify.h"

namespace tessera {
namespace {

ErrorCode code_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) { return e.code(); }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::internal;
}

TEST(Backend, DevicesByText) {
  EXPECT_EQ(make_backend("cpu")->arch().backend, BackendKind::cpu);
  EXPECT_EQ(make_backend("cpu:3")->arch().compute_units, 3);
  EXPECT_EQ(make_backend("cpu", 5)->arch().compute_units, 5);
  EXPECT_EQ(make_backend("null:gfx942")->arch().name, "gfx942");
  for (const char* text :
       {"", "cpus", "cpu:0", "cpu:-1", "cpu:x", "cpu:9999999", "null:", "null:nothing", "tpu"}) {
    EXPECT_EQ(code_of([&] { make_backend(text); }), ErrorCode::bad_input) << text;
  }
  EXPECT_EQ(code_of([] { make_backend("cpu", -1); }), ErrorCode::bad_input);
  EXPECT_EQ(code_of([] { make_backend("cpu:4", 2); }), ErrorCode::bad_input);
  EXPECT_EQ(make_backend("cpu:4", 4)->arch().compute_units, 4);
}

TEST(Backend, NullPlansOnly) {
  auto backend = make_backend("null:sm_90a");
  EXPECT_EQ(code_of([&] { backend->compile({}, ""); }), ErrorCode::unsupported);
  EXPECT_EQ(code_of([&] { backend->load({}); }), ErrorCode::unsupported);
}

TEST(Backend, BytesThatAreNoKernel) {
  auto backend = make_backend("cpu");
  EXPECT_EQ(code_of([&] { backend->load({"tsr_x", "not an object"}); }), ErrorCode::corrupt);
  EXPECT_EQ(code_of([&] { backend->load({"tsr_x", ""}); }), ErrorCode::corrupt);
}

// The loader knows libraries by path: every one that is loaded must be its own.
TEST(Backend, ModulesLiveSideBySide) {
  Backend& backend = testing_cpu::backend(1);
  const bool wide = backend.arch().vector_bits == 512;
  const std::string inst = wide ? " inst=1x16x1" : " inst=1x8x1";
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (const char* epilogue : {"none", "relu", "silu"}) {
    kernels.push_back(
        testing_cpu::make_kernel(std::string("gemm m=5 n=16 k=8 dtype=f32 layout=rrr epilogue=") + epilogue,
                                 "cpu_packed tile=4x16" + inst));
  }
  for (const auto& kernel : kernels) {
    Operands operands(kernel->problem(), FillKind::uniform);
    Verifier verifier(operands);
    operands.reset_c();
    kernel->run(operands.bind(*kernel));
    EXPECT_EQ(verifier.check().failure, "") << to_string(kernel->problem());
  }
}

TEST(Backend, AnotherSymbolIsMissing) {
  Backend& backend = testing_cpu::backend(1);
  const bool wide = backend.arch().vector_bits == 512;
  const Problem p = Problem::parse("gemm m=5 n=16 k=8 dtype=f32 layout=rrr");
  const Source source = render(
      lower(p),
      testing_cpu::config(wide ? "cpu_packed tile=4x16 inst=1x16x1" : "cpu_packed tile=4x16 inst=1x8x1"),
      backend.arch());
  Binary binary = backend.compile(source, "");
  binary.symbol += "_not";
  EXPECT_EQ(code_of([&] { backend.load(binary); }), ErrorCode::corrupt);
}

}  // namespace
}  // namespace tessera
