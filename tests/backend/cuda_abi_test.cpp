// The declarations of libcuda.h against NVIDIA's own, where these are installed; and what a machine without
// CUDA answers.
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/cuda/libcuda.h"
#include "cuda/abi.h"
#include "tessera/error.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

namespace tessera {
namespace {

#if __has_include(<cuda.h>)
TEST(CudaAbi, MatchesTheHeader) {
  using namespace cuda;
  EXPECT_EQ(sizeof(LaunchConfig), sizeof(CUlaunchConfig));
  EXPECT_EQ(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
  EXPECT_EQ(offsetof(LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
  EXPECT_EQ(offsetof(LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));
  EXPECT_EQ(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute));
  EXPECT_EQ(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
  EXPECT_EQ(sizeof(tsr::TensorMap), sizeof(CUtensorMap));
  EXPECT_GE(alignof(tsr::TensorMap), 64u);
  EXPECT_EQ(kClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(kProgrammaticStreamSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(kAttributeClockKhz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  EXPECT_EQ(kAttributeMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(kAttributeL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_EQ(kAttributeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(kAttributeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(kAttributePageableMemory, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  EXPECT_EQ(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
  EXPECT_EQ(kPointerDevice, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  EXPECT_EQ(kMemoryTypeDevice, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(kFunctionMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  EXPECT_EQ(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(static_cast<int>(MapType::u8), CU_TENSOR_MAP_DATA_TYPE_UINT8);
  EXPECT_EQ(static_cast<int>(MapType::i32), CU_TENSOR_MAP_DATA_TYPE_INT32);
  EXPECT_EQ(static_cast<int>(MapType::f16), CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  EXPECT_EQ(static_cast<int>(MapType::f32), CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  EXPECT_EQ(static_cast<int>(MapType::bf16), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  EXPECT_EQ(kMapPromote256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}
#endif

TEST(CudaDevice, IsThereOrSaysWhyNot) {
  std::string why;
  if (cuda::libcuda(&why)) {
    EXPECT_NO_THROW(make_backend("cuda:0"));
  } else {
    EXPECT_FALSE(why.empty());
    try {
      make_backend("cuda:0");
      FAIL() << "a device without a driver";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unsupported);
      EXPECT_EQ(e.what_happened(), why);
    }
  }
}

TEST(CudaDevice, RefusesOtherText) {
  for (const char* text : {"cuda:x", "cuda:-1", "cuda:1:2"}) {
    try {
      make_backend(text);
      FAIL() << text;
    } catch (const Error& e) { EXPECT_EQ(e.code(), ErrorCode::bad_input) << text; }
  }
}

}  // namespace
}  // namespace tessera
