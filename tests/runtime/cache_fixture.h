// A kernel cache in a directory of its own, with a compiler that counts.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

#include "backend/cpu/compile.h"
#include "base/fs.h"
#include "base/process.h"
#include "runtime/kernel_cache.h"
#include "tessera/error.h"
#include "variable.h"

namespace tessera {
using From = CacheResult::From;

// The real compiler; nothing is loaded here.
class CompilerOnly : public Backend {
 public:
  const ArchSpec& arch() const override { return arch_; }
  std::string compiler_identity() const override { return find_cpp_compiler().identity; }
  std::string compiler_file() const override { return find_cpp_compiler().file; }
  Binary compile(const Source& source, const std::string& scratch) const override {
    return compile_cpp(source, scratch, timeout_s);
  }
  std::shared_ptr<Module> load(const Binary&) const override { return nullptr; }
  std::unique_ptr<Kernel> prepare(std::shared_ptr<Module>, const Problem&, const Choice&) const override {
    return nullptr;
  }
  double timeout_s = kCompileTimeoutS;

 private:
  ArchSpec arch_;
};

inline Source unit(const std::string& name, const std::string& body = "return 1;") {
  Source s;
  s.arch = "any";
  s.symbol = "tsr_test_" + name;
  s.unit = "extern \"C\" __attribute__((visibility(\"default\"))) int " + s.symbol + "() { " + body + " }\n";
  return s;
}

class Cache : public testing::Test {
 protected:
  Cache() {
    // Every compile leaves a mark, so that they can be counted over threads and processes.
    const std::string real = find_program("g++").empty() ? find_program("clang++") : find_program("g++");
    set_compiler("counting",
                 "case \"$*\" in *\" -o \"*) echo x >> " + calls_ + ";; esac; exec " + real + " \"$@\"");
  }

  void set_compiler(const std::string& name, const std::string& body) {
    const std::string path = dir_.path() + '/' + name;
    write_file(path, "#!/bin/sh\n" + body + "\n");
    chmod(path.c_str(), 0755);
    setenv("TESSERA_CXX", path.c_str(), 1);
  }

  KernelCache cache(KernelCache::Options options = {}) {
    if (options.directory.empty()) options.directory = root_;
    return KernelCache(std::move(options));
  }

  size_t compiles() const { return try_read_file(calls_).value_or("").size() / 2; }

  From get(const Source& s) { return cache().get_or_build(s, backend_).from; }

  // The only entry's directory.
  std::string entry() {
    const Json found = cache().verify(false);
    EXPECT_EQ(found.at("checked").as_int(), 1);
    std::string path = root_;
    for (int depth = 0; depth < 3; ++depth) {
      for (const std::string& name : list_directory(path)) {
        if (depth == 0 && name.size() != 2) continue;
        path += '/' + name;
        break;
      }
    }
    return path;
  }

  template <class F>
  std::optional<Error> failure(F&& body) {
    try {
      body();
    } catch (const Error& e) { return e; }
    return std::nullopt;
  }

  TempDir dir_{temp_directory()};
  std::string root_ = dir_.path() + "/cache", calls_ = dir_.path() + "/calls";
  Variable cxx_{"TESSERA_CXX", ""};
  Variable default_{"TESSERA_CACHE_DIR", root_};
  CompilerOnly backend_;
};

inline int run_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& e) { fprintf(stderr, "%s\n", e.what()); }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace tessera
