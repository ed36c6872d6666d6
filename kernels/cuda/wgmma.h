// wgmma, one specialisation for each n: D (64 x n, in registers) += A (64 x 32 bytes) B (32 bytes x n), both
// from shared memory by descriptor. `accumulate` 0 starts from zero. kTransA, kTransB 1: the operand is
// contiguous along m or n (16-bit types only).
#pragma once

#include "cuda/ptx.h"
#include "gpu/types.h"

namespace tsr {

template <int kN>
struct Wgmma;

// Placeholders and operands of the n / 2 accumulators of a thread, each list on top of the one before.
// clang-format off
#define TSR_P8 "%0, %1, %2, %3"
#define TSR_R8(c) c(d[0]), c(d[1]), c(d[2]), c(d[3])
#define TSR_P16 TSR_P8 ", %4, %5, %6, %7"
#define TSR_R16(c) TSR_R8(c), c(d[4]), c(d[5]), c(d[6]), c(d[7])
#define TSR_P24 TSR_P16 ", %8, %9, %10, %11"
#define TSR_R24(c) TSR_R16(c), c(d[8]), c(d[9]), c(d[10]), c(d[11])
#define TSR_P32 TSR_P24 ", %12, %13, %14, %15"
#define TSR_R32(c) TSR_R24(c), c(d[12]), c(d[13]), c(d[14]), c(d[15])
#define TSR_P40 TSR_P32 ", %16, %17, %18, %19"
#define TSR_R40(c) TSR_R32(c), c(d[16]), c(d[17]), c(d[18]), c(d[19])
#define TSR_P48 TSR_P40 ", %20, %21, %22, %23"
#define TSR_R48(c) TSR_R40(c), c(d[20]), c(d[21]), c(d[22]), c(d[23])
#define TSR_P56 TSR_P48 ", %24, %25, %26, %27"
#define TSR_R56(c) TSR_R48(c), c(d[24]), c(d[25]), c(d[26]), c(d[27])
#define TSR_P64 TSR_P56 ", %28, %29, %30, %31"
#define TSR_R64(c) TSR_R56(c), c(d[28]), c(d[29]), c(d[30]), c(d[31])
#define TSR_P72 TSR_P64 ", %32, %33, %34, %35"
#define TSR_R72(c) TSR_R64(c), c(d[32]), c(d[33]), c(d[34]), c(d[35])
#define TSR_P80 TSR_P72 ", %36, %37, %38, %39"
#define TSR_R80(c) TSR_R72(c), c(d[36]), c(d[37]), c(d[38]), c(d[39])
#define TSR_P88 TSR_P80 ", %40, %41, %42, %43"
#define TSR_R88(c) TSR_R80(c), c(d[40]), c(d[41]), c(d[42]), c(d[43])
#define TSR_P96 TSR_P88 ", %44, %45, %46, %47"
#define TSR_R96(c) TSR_R88(c), c(d[44]), c(d[45]), c(d[46]), c(d[47])
#define TSR_P104 TSR_P96 ", %48, %49, %50, %51"
#define TSR_R104(c) TSR_R96(c), c(d[48]), c(d[49]), c(d[50]), c(d[51])
#define TSR_P112 TSR_P104 ", %52, %53, %54, %55"
#define TSR_R112(c) TSR_R104(c), c(d[52]), c(d[53]), c(d[54]), c(d[55])
#define TSR_P120 TSR_P112 ", %56, %57, %58, %59"
#define TSR_R120(c) TSR_R112(c), c(d[56]), c(d[57]), c(d[58]), c(d[59])
#define TSR_P128 TSR_P120 ", %60, %61, %62, %63"
#define TSR_R128(c) TSR_R120(c), c(d[60]), c(d[61]), c(d[62]), c(d[63])
#define TSR_P136 TSR_P128 ", %64, %65, %66, %67"
#define TSR_R136(c) TSR_R128(c), c(d[64]), c(d[65]), c(d[66]), c(d[67])
#define TSR_P144 TSR_P136 ", %68, %69, %70, %71"
#define TSR_R144(c) TSR_R136(c), c(d[68]), c(d[69]), c(d[70]), c(d[71])
#define TSR_P152 TSR_P144 ", %72, %73, %74, %75"
#define TSR_R152(c) TSR_R144(c), c(d[72]), c(d[73]), c(d[74]), c(d[75])
#define TSR_P160 TSR_P152 ", %76, %77, %78, %79"
#define TSR_R160(c) TSR_R152(c), c(d[76]), c(d[77]), c(d[78]), c(d[79])
#define TSR_P168 TSR_P160 ", %80, %81, %82, %83"
#define TSR_R168(c) TSR_R160(c), c(d[80]), c(d[81]), c(d[82]), c(d[83])
#define TSR_P176 TSR_P168 ", %84, %85, %86, %87"
#define TSR_R176(c) TSR_R168(c), c(d[84]), c(d[85]), c(d[86]), c(d[87])
#define TSR_P184 TSR_P176 ", %88, %89, %90, %91"
#define TSR_R184(c) TSR_R176(c), c(d[88]), c(d[89]), c(d[90]), c(d[91])
#define TSR_P192 TSR_P184 ", %92, %93, %94, %95"
#define TSR_R192(c) TSR_R184(c), c(d[92]), c(d[93]), c(d[94]), c(d[95])
#define TSR_P200 TSR_P192 ", %96, %97, %98, %99"
#define TSR_R200(c) TSR_R192(c), c(d[96]), c(d[97]), c(d[98]), c(d[99])
#define TSR_P208 TSR_P200 ", %100, %101, %102, %103"
#define TSR_R208(c) TSR_R200(c), c(d[100]), c(d[101]), c(d[102]), c(d[103])
#define TSR_P216 TSR_P208 ", %104, %105, %106, %107"
#define TSR_R216(c) TSR_R208(c), c(d[104]), c(d[105]), c(d[106]), c(d[107])
#define TSR_P224 TSR_P216 ", %108, %109, %110, %111"
#define TSR_R224(c) TSR_R216(c), c(d[108]), c(d[109]), c(d[110]), c(d[111])
#define TSR_P232 TSR_P224 ", %112, %113, %114, %115"
#define TSR_R232(c) TSR_R224(c), c(d[112]), c(d[113]), c(d[114]), c(d[115])
#define TSR_P240 TSR_P232 ", %116, %117, %118, %119"
#define TSR_R240(c) TSR_R232(c), c(d[116]), c(d[117]), c(d[118]), c(d[119])
#define TSR_P248 TSR_P240 ", %120, %121, %122, %123"
#define TSR_R248(c) TSR_R240(c), c(d[120]), c(d[121]), c(d[122]), c(d[123])
#define TSR_P256 TSR_P248 ", %124, %125, %126, %127"
#define TSR_R256(c) TSR_R248(c), c(d[124]), c(d[125]), c(d[126]), c(d[127])
// clang-format on

#define TSR_WGMMA_ASM(c, n, k, types, a, b, flag, tail, ...)                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " flag ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n k types \
               " {" TSR_P##n "}, " a ", " b ", p" tail ";\n}"                                                \
               : TSR_R##n(c)                                                                                 \
               : "l"(desc_a), "l"(desc_b), "r"(accumulate)__VA_ARGS__)

// a .. tb: placeholders n / 2 .. n / 2 + 4.
#define TSR_WGMMA_16(n, types, a, b, flag, ta, tb) \
  TSR_WGMMA_ASM("+f", n, "k16", types, a, b, flag, ", 1, 1, " ta ", " tb, , "n"(kTransA), "n"(kTransB))
#define TSR_WGMMA_8(n, types, a, b, flag) TSR_WGMMA_ASM("+f", n, "k32", types, a, b, flag, ", 1, 1")
#define TSR_WGMMA_I(n, types, a, b, flag) TSR_WGMMA_ASM("+r", n, "k32", types, a, b, flag, "")

#define TSR_WGMMA(n, a, b, flag, ta, tb)                                                                    \
  template <>                                                                                               \
  struct Wgmma<n> {                                                                                         \
    template <Type kA, Type kB, int kTransA, int kTransB>                                                   \
    static __device__ __forceinline__ void run(float (&d)[n / 2], u64 desc_a, u64 desc_b, int accumulate) { \
      if constexpr (kA == Type::bf16)                                                                       \
        TSR_WGMMA_16(n, ".f32.bf16.bf16", a, b, flag, ta, tb);                                              \
      else if constexpr (kA == Type::f16)                                                                   \
        TSR_WGMMA_16(n, ".f32.f16.f16", a, b, flag, ta, tb);                                                \
      else if constexpr (kA == Type::f8e4m3 && kB == Type::f8e4m3)                                          \
        TSR_WGMMA_8(n, ".f32.e4m3.e4m3", a, b, flag);                                                       \
      else if constexpr (kA == Type::f8e4m3)                                                                \
        TSR_WGMMA_8(n, ".f32.e4m3.e5m2", a, b, flag);                                                       \
      else if constexpr (kB == Type::f8e4m3)                                                                \
        TSR_WGMMA_8(n, ".f32.e5m2.e4m3", a, b, flag);                                                       \
      else                                                                                                  \
        TSR_WGMMA_8(n, ".f32.e5m2.e5m2", a, b, flag);                                                       \
    }                                                                                                       \
    template <Type kA, Type kB, int kTransA, int kTransB>                                                   \
    static __device__ __forceinline__ void run(int (&d)[n / 2], u64 desc_a, u64 desc_b, int accumulate) {   \
      if constexpr (kA == Type::u8)                                                                         \
        TSR_WGMMA_I(n, ".s32.u8.s8", a, b, flag);                                                           \
      else if constexpr (kB == Type::u8)                                                                    \
        TSR_WGMMA_I(n, ".s32.s8.u8", a, b, flag);                                                           \
      else                                                                                                  \
        TSR_WGMMA_I(n, ".s32.s8.s8", a, b, flag);                                                           \
    }                                                                                                       \
  };

TSR_WGMMA(8, "%4", "%5", "%6", "%7", "%8")
TSR_WGMMA(16, "%8", "%9", "%10", "%11", "%12")
TSR_WGMMA(24, "%12", "%13", "%14", "%15", "%16")
TSR_WGMMA(32, "%16", "%17", "%18", "%19", "%20")
TSR_WGMMA(40, "%20", "%21", "%22", "%23", "%24")
TSR_WGMMA(48, "%24", "%25", "%26", "%27", "%28")
TSR_WGMMA(56, "%28", "%29", "%30", "%31", "%32")
TSR_WGMMA(64, "%32", "%33", "%34", "%35", "%36")
TSR_WGMMA(72, "%36", "%37", "%38", "%39", "%40")
TSR_WGMMA(80, "%40", "%41", "%42", "%43", "%44")
TSR_WGMMA(88, "%44", "%45", "%46", "%47", "%48")
TSR_WGMMA(96, "%48", "%49", "%50", "%51", "%52")
TSR_WGMMA(104, "%52", "%53", "%54", "%55", "%56")
TSR_WGMMA(112, "%56", "%57", "%58", "%59", "%60")
TSR_WGMMA(120, "%60", "%61", "%62", "%63", "%64")
TSR_WGMMA(128, "%64", "%65", "%66", "%67", "%68")
TSR_WGMMA(136, "%68", "%69", "%70", "%71", "%72")
TSR_WGMMA(144, "%72", "%73", "%74", "%75", "%76")
TSR_WGMMA(152, "%76", "%77", "%78", "%79", "%80")
TSR_WGMMA(160, "%80", "%81", "%82", "%83", "%84")
TSR_WGMMA(168, "%84", "%85", "%86", "%87", "%88")
TSR_WGMMA(176, "%88", "%89", "%90", "%91", "%92")
TSR_WGMMA(184, "%92", "%93", "%94", "%95", "%96")
TSR_WGMMA(192, "%96", "%97", "%98", "%99", "%100")
TSR_WGMMA(200, "%100", "%101", "%102", "%103", "%104")
TSR_WGMMA(208, "%104", "%105", "%106", "%107", "%108")
TSR_WGMMA(216, "%108", "%109", "%110", "%111", "%112")
TSR_WGMMA(224, "%112", "%113", "%114", "%115", "%116")
TSR_WGMMA(232, "%116", "%117", "%118", "%119", "%120")
TSR_WGMMA(240, "%120", "%121", "%122", "%123", "%124")
TSR_WGMMA(248, "%124", "%125", "%126", "%127", "%128")
TSR_WGMMA(256, "%128", "%129", "%130", "%131", "%132")

}  // namespace tsr
