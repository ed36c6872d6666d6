#include "backend/cuda/nvrtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "backend/compile_log.h"
#include "tessera/error.h"

namespace tessera::cuda {
namespace {

struct Program;

// X(member, symbol, arguments)
#define TESSERA_NVRTC(X)                                                                \
  X(version, "nvrtcVersion", (int*, int*))                                              \
  X(create, "nvrtcCreateProgram",                                                       \
    (Program**, const char*, const char*, int, const char* const*, const char* const*)) \
  X(destroy, "nvrtcDestroyProgram", (Program**))                                        \
  X(compile, "nvrtcCompileProgram", (Program*, int, const char* const*))                \
  X(log_size, "nvrtcGetProgramLogSize", (Program*, size_t*))                            \
  X(log, "nvrtcGetProgramLog", (Program*, char*))                                       \
  X(cubin_size, "nvrtcGetCUBINSize", (Program*, size_t*))                               \
  X(cubin, "nvrtcGetCUBIN", (Program*, char*))

struct Nvrtc {
#define TESSERA_MEMBER(member, symbol, arguments) int(*member) arguments = nullptr;
  TESSERA_NVRTC(TESSERA_MEMBER)
#undef TESSERA_MEMBER
  std::string identity, why;

  Nvrtc() {
    void* library = nullptr;
    for (const std::string& path : places()) {
      if ((library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))) break;
    }
    if (!library) {
      why = "NVRTC, NVIDIA's run-time compiler (libnvrtc.so), is not there";
      return;
    }
#define TESSERA_RESOLVE(member, symbol, arguments)                     \
  member = reinterpret_cast<decltype(member)>(dlsym(library, symbol)); \
  if (!member && why.empty()) why = "libnvrtc.so is too old: it lacks " symbol;
    TESSERA_NVRTC(TESSERA_RESOLVE)
#undef TESSERA_RESOLVE
    int major = 0, minor = 0;
    if (why.empty() && version(&major, &minor)) why = "libnvrtc.so does not tell its version";
    if (why.empty()) identity = "nvrtc " + std::to_string(major) + "." + std::to_string(minor);
  }

  static std::vector<std::string> places() {
    static constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    std::vector<std::string> folders;
    if (const char* home = std::getenv("TESSERA_CUDA_HOME")) {
      folders = {std::string(home) + "/lib64/", std::string(home) + "/lib/"};
    } else {
      folders = {"", "/usr/local/cuda/lib64/"};
    }
    std::vector<std::string> out;
    for (const std::string& folder : folders) {
      for (const char* name : kNames) out.push_back(folder + name);
    }
    return out;
  }
};

const Nvrtc& nvrtc() {
  static const auto& loaded = *new Nvrtc;  // for threads while the process ends
  return loaded;
}

struct ProgramHandle {
  Program* p = nullptr;
  ~ProgramHandle() {
    if (p) nvrtc().destroy(&p);
  }
};

constexpr const char* kRemedy =
    "install the CUDA toolkit's libnvrtc, or name its folder in TESSERA_CUDA_HOME; without it only packs and "
    "cached "
    "kernels run";

}  // namespace

std::string nvrtc_identity(std::string* why) {
  if (why) *why = nvrtc().why;
  return nvrtc().identity;
}

Binary compile_nvrtc(const Source& source, const std::string& scratch, std::string* log_out) {
  const Nvrtc& rtc = nvrtc();
  if (!rtc.why.empty()) throw Error(ErrorCode::compile_failed, rtc.why, kRemedy);
  ProgramHandle program;
  if (rtc.create(&program.p, source.unit.c_str(), source.symbol.c_str(), 0, nullptr, nullptr)) {
    throw Error(ErrorCode::io, "NVRTC did not accept the unit " + source.symbol);
  }
  // Helpers of the kernels' headers are plain constexpr functions, which drivers share.
  std::vector<std::string> options = {"--gpu-architecture=" + source.arch, "--std=c++20",
                                      "--device-as-default-execution-space", "--ptxas-options=-v"};
  options.insert(options.end(), source.flags.begin(), source.flags.end());
  std::vector<const char*> words;
  for (const std::string& o : options) words.push_back(o.c_str());
  const int result = rtc.compile(program.p, static_cast<int>(words.size()), words.data());
  size_t size = 0;
  std::string log;
  if (!rtc.log_size(program.p, &size) && size > 1) {
    log.resize(size);
    rtc.log(program.p, log.data());
    log.resize(size - 1);
  }
  if (log_out) *log_out = log;
  // Others, such as memory that ran out, say nothing about the unit.
  constexpr int kCompilationError = 6;  // NVRTC_ERROR_COMPILATION
  if (result && result != kCompilationError) {
    throw Error(ErrorCode::io, "NVRTC failed with error " + std::to_string(result) + " before it judged " +
                                   source.symbol + ": " + log.substr(0, log.find('\n')));
  }
  if (result) {
    throw Error(ErrorCode::compile_failed,
                "NVRTC refused " + source.symbol + ": " + log.substr(0, log.find('\n')),
                where_log_is(keep_compile_log(source, scratch, log)));
  }
  Binary out{.symbol = source.symbol, .bytes = {}};
  if (rtc.cubin_size(program.p, &size) || size == 0) {
    throw Error(ErrorCode::compile_failed, "NVRTC gave no machine code for " + source.arch);
  }
  out.bytes.resize(size);
  if (rtc.cubin(program.p, out.bytes.data()))
    throw Error(ErrorCode::io, "NVRTC did not hand over " + source.symbol);
  return out;
}

}  // namespace tessera::cuda
