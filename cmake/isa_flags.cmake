# Code compiled ahead of time for more than the baseline instruction set sits in files named *_<isa>.cpp and is
# entered only after the architecture was detected. Such a file defines no inline or template function with
# external linkage: the linker keeps one copy of those for the whole program, and it could be this one.
# tests/packaging/isa_symbols.py holds them to it.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(isa_flags_avx2 -mavx2 -mfma -mf16c)
  set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's own intrinsics headers look uninitialised to it (its bug 105593).
    list(APPEND isa_flags_avx2 -Wno-maybe-uninitialized -Wno-uninitialized)
    list(APPEND isa_flags_avx512 -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  foreach(isa avx2 avx512)
    set(isa_sources ${sources})
    list(FILTER isa_sources INCLUDE REGEX "_${isa}\\.cpp$")
    if(isa_sources)
      set_property(SOURCE ${isa_sources} APPEND PROPERTY COMPILE_OPTIONS ${isa_flags_${isa}})
      set_property(SOURCE ${isa_sources} PROPERTY SKIP_PRECOMPILE_HEADERS ON)  # which are for the baseline
    endif()
  endforeach()
endif()

# Cost models round a lot, which SSE4.1 does in one instruction. Every x86 processor that runs a kernel of ours, or
# serves a GPU, has it, so that it does not matter which copy of an inline function the linker keeps.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(tessera PRIVATE -msse4.1)
endif()
