#include "backend/cpu/cpu_module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <random>

#include "base/fs.h"
#include "tessera/error.h"

namespace tessera {
namespace {

// The loader takes a path it has seen for the library it knows by it, and descriptors are reused: so every
// path is spelled its own way, with a counter's bits as "/" and "/." before the number. Another copy of this
// library in the process counts too: each from a number of its own.
std::string descriptor_path(int fd) {
  static std::atomic<uint64_t> counter{[] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }()};
  std::string path = "/proc/self/fd";
  for (uint64_t bits = counter.fetch_add(1) + 1; bits; bits >>= 1) path += bits & 1 ? "/." : "/";
  return path + '/' + std::to_string(fd);
}

// A file that exists only while it is being loaded: in memory, or a temporary file where the kernel lacks
// memfd.
struct LoadFile {
  explicit LoadFile(const std::string& bytes) {
    fd = memfd_create("tessera-kernel", MFD_CLOEXEC);
    if (fd >= 0) {
      path = descriptor_path(fd);
    } else {
      path = temp_directory() + "/tessera-kernel-XXXXXX";
      fd = mkostemp(path.data(), O_CLOEXEC);
      temporary = true;
    }
    complete = fd >= 0 && write_all(fd, bytes);
  }
  ~LoadFile() {
    if (temporary && fd >= 0) unlink(path.c_str());
    if (fd >= 0) close(fd);
  }
  int fd = -1;
  std::string path;
  bool temporary = false, complete = false;
};

}  // namespace

CpuModule::CpuModule(const Binary& binary) {
  LoadFile file(binary.bytes);
  if (!file.complete) {
    throw Error(ErrorCode::io, "cannot hold kernel " + binary.symbol + " in a file to load it",
                "free memory, or set TMPDIR to a directory with space");
  }
  handle_ = dlopen(file.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) {
    const char* why = dlerror();
    throw Error(ErrorCode::corrupt,
                "kernel " + binary.symbol + " does not load: " + (why ? why : "unknown reason"),
                "tessera cache verify --repair");
  }
  entry_ = reinterpret_cast<Entry>(dlsym(handle_, binary.symbol.c_str()));
  if (!entry_) {
    dlclose(handle_);
    throw Error(ErrorCode::corrupt, "the kernel binary lacks the symbol " + binary.symbol,
                "tessera cache verify --repair");
  }
}

CpuModule::~CpuModule() { dlclose(handle_); }

}  // namespace tessera
