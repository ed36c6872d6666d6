#include "runtime/kernel_cache.h"

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
#include "runtime/pack.h"
#include "tessera/error.h"

namespace tessera {
namespace {

using From = CacheResult::From;

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// The real compiler; nothing is loaded here.
class CompilerOnly : public Backend {
 public:
  const ArchSpec& arch() const override { return arch_; }
  std::string compiler_identity() const override { return find_cpp_compiler().identity; }
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

Source unit(const std::string& name, const std::string& body = "return 1;") {
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

int run_child(const std::function<int()>& body) {
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

TEST_F(Cache, SecondTimeComesFromDisk) {
  const CacheResult first = cache().get_or_build(unit("a"), backend_);
  EXPECT_EQ(first.from, From::compiled);
  const CacheResult second = cache().get_or_build(unit("a"), backend_);
  EXPECT_EQ(second.from, From::disk);
  EXPECT_EQ(second.binary.bytes, first.binary.bytes);
  EXPECT_EQ(second.binary.symbol, "tsr_test_a");
  EXPECT_EQ(compiles(), 1u);
  EXPECT_TRUE(cache().contains(unit("a"), backend_));
  EXPECT_FALSE(cache().contains(unit("b"), backend_));
  EXPECT_TRUE(list_directory(root_ + "/scratch").empty());
}

TEST_F(Cache, EverythingThatMattersIsInTheKey) {
  get(unit("a"));
  EXPECT_EQ(get(unit("a", "return 2;")), From::compiled);
  Source flagged = unit("a");
  flagged.flags = {"-DX"};
  EXPECT_EQ(get(flagged), From::compiled);
  Source elsewhere = unit("a");
  elsewhere.arch = "other";
  EXPECT_EQ(get(elsewhere), From::compiled);
  setenv("TESSERA_CXX", (dir_.path() + "/counting -DY").c_str(), 1);
  EXPECT_EQ(get(unit("a")), From::compiled);
  EXPECT_EQ(cache().stats().at("entries").as_int(), 5);
}

TEST_F(Cache, DamagedEntriesAreBuiltAnew) {
  const std::function<void(const std::string&)> damages[] = {
      [](const std::string& e) { ASSERT_EQ(truncate((e + "/kernel.so").c_str(), 100), 0); },
      [](const std::string& e) { write_file(e + "/kernel.so", ""); },
      [](const std::string& e) {
        std::string bytes = read_file(e + "/kernel.so");
        bytes[bytes.size() / 2] ^= 1;
        write_file(e + "/kernel.so", bytes);
      },
      [](const std::string& e) { unlink((e + "/kernel.so").c_str()); },
      [](const std::string& e) { unlink((e + "/meta.json").c_str()); },
      [](const std::string& e) { write_file(e + "/meta.json", "{\"symbol\": "); },
      [](const std::string& e) { write_file(e + "/meta.json", "{}"); },
      [](const std::string& e) { chmod((e + "/kernel.so").c_str(), 0666); },
      [](const std::string& e) {
        if (geteuid() == 0)
          EXPECT_EQ(chown((e + "/kernel.so").c_str(), 65534, 65534), 0);
        else
          chmod((e + "/kernel.so").c_str(), 0666);
      },
  };
  size_t n = 0;
  for (const auto& damage : damages) {
    SCOPED_TRACE(n);
    root_ = dir_.path() + "/cache" + std::to_string(n++);  // a path of its own: warnings come once per entry
    const std::string good = cache().get_or_build(unit("a"), backend_).binary.bytes;
    damage(entry());
    EXPECT_EQ(cache().verify(false).at("bad").size(), 1u);
    testing::internal::CaptureStderr();
    const CacheResult again = cache().get_or_build(unit("a"), backend_);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(again.from, From::compiled);
    EXPECT_EQ(again.binary.bytes, good);
    EXPECT_NE(said.find("is damaged"), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_EQ(get(unit("a")), From::disk);
    EXPECT_EQ(cache().verify(false).at("good").as_int(), 1);
  }
}

TEST_F(Cache, VerifyRepairs) {
  for (const char* name : {"a", "b", "c"}) get(unit(name));
  const std::string first = list_directory(root_)[0];
  const std::string second = list_directory(root_ + '/' + first)[0];
  const std::string name = list_directory(root_ + '/' + first + '/' + second)[0];
  write_file(root_ + '/' + first + '/' + second + '/' + name + "/kernel.so", "junk");
  Json report = cache().verify(true);
  EXPECT_EQ(report.at("checked").as_int(), 3);
  EXPECT_EQ(report.at("good").as_int(), 2);
  EXPECT_EQ(report.at("removed").as_int(), 1);
  report = cache().verify(true);
  EXPECT_EQ(report.at("checked").as_int(), 2);
  EXPECT_EQ(report.at("bad").size(), 0u);
}

TEST_F(Cache, DirectoryOfOthersIsRefused) {
  get(unit("a"));
  chmod(root_.c_str(), 0777);
  auto error = failure([&] { cache(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::io);
  EXPECT_NE(std::string(error->what()).find("can be written by others"), std::string::npos) << error->what();
  EXPECT_NE(error->what_to_do().find("chmod 700"), std::string::npos);
  chmod(root_.c_str(), 0700);
  EXPECT_EQ(get(unit("a")), From::disk);
  if (geteuid() != 0) GTEST_SKIP() << "giving directories away needs root";
  ASSERT_EQ(chown(root_.c_str(), 65534, 65534), 0);
  error = failure([&] { cache(); });
  ASSERT_TRUE(error);
  EXPECT_NE(std::string(error->what()).find("belongs to user 65534"), std::string::npos) << error->what();
}

TEST_F(Cache, DefaultDirectoryOfOthersIsDoneWithout) {
  unsetenv("TESSERA_CACHE_DIR");
  Variable xdg("XDG_CACHE_HOME", dir_.path() + "/xdg");
  make_directories(dir_.path() + "/xdg/tessera");
  chmod((dir_.path() + "/xdg/tessera").c_str(), 0777);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(KernelCache(KernelCache::Options{}).get_or_build(unit("a"), backend_).from, From::compiled);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("kernels are not cached"), std::string::npos);
  EXPECT_TRUE(list_directory(dir_.path() + "/xdg/tessera").empty());
}

TEST_F(Cache, ReadOnlyDirectoryCostsOnlyTheCaching) {
  get(unit("a"));
  KernelCache::Options options;
  options.read_only = true;
  EXPECT_EQ(cache(options).get_or_build(unit("a"), backend_).from, From::disk);
  EXPECT_EQ(cache(options).get_or_build(unit("b"), backend_).from, From::compiled);
  EXPECT_EQ(cache(options).clear(), 0);
  EXPECT_EQ(cache().stats().at("entries").as_int(), 1);

  // The same where the file system says so: another user's eyes when root, who may write anywhere.
  chmod(dir_.path().c_str(), 0755);
  write_file(calls_, "");
  chmod(calls_.c_str(), 0666);
  const std::string locked = dir_.path() + "/locked";
  const int code = run_child([&] {
    make_directories(locked);
    if (geteuid() == 0 &&
        (chown(locked.c_str(), 65534, 65534) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
      return 1;
    chmod(locked.c_str(), 0500);
    root_ = locked;
    setenv("TESSERA_CACHE_DIR", locked.c_str(), 1);
    testing::internal::CaptureStderr();
    KernelCache own = cache();
    for (int i = 0; i < 2; ++i) {
      if (own.get_or_build(unit("b"), backend_).from != From::compiled) return 2;
    }
    const std::string said = testing::internal::GetCapturedStderr();
    if (std::count(said.begin(), said.end(), '\n') != 1 || said.find("not cached") == said.npos) return 3;
    return list_directory(locked).empty() ? 0 : 4;
  });
  EXPECT_EQ(code, 0);
}

TEST_F(Cache, FullDiskCostsOnlyTheCaching) {
  const std::string small = dir_.path() + "/small";
  make_directories(small);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=256k,mode=0700") != 0)
    GTEST_SKIP() << "mounting needs root";
  struct Unmount {
    std::string path;
    ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
  } unmount{small};
  root_ = small;
  setenv("TESSERA_CACHE_DIR", small.c_str(), 1);
  for (const size_t filler : {size_t{200} << 10, size_t{256} << 10}) {
    testing::internal::CaptureStderr();
    try {
      write_file(small + "/filler", std::string(filler, 'x'));
    } catch (const Error&) {}
    KernelCache own = cache();
    for (int i = 0; i < 2; ++i) {
      const CacheResult result = own.get_or_build(
          unit("big", "static const char big[80000] = {1}; volatile int i = 1; return big[i];"), backend_);
      EXPECT_EQ(result.from, From::compiled);
      EXPECT_GT(result.binary.bytes.size(), 80000u);
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_EQ(cache().stats().at("entries").as_int(), 0);
    remove_all(small + "/filler");
  }
  EXPECT_EQ(get(unit("a")), From::compiled);
  EXPECT_EQ(get(unit("a")), From::disk);
}

TEST_F(Cache, FileSizeLimitCostsOnlyTheCaching) {
  const int code = run_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    KernelCache own = cache();
    backend_.compiler_identity();
    const Binary binary = own.get_or_build(unit("a"), backend_).binary;
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    // No compiler can write its output either: an io error, which is not remembered.
    auto error = failure([&] { own.get_or_build(unit("b"), backend_); });
    if (!error || error->code() != ErrorCode::io) return 1;
    return own.get_or_build(unit("a"), backend_).from == From::disk ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(get(unit("b")), From::compiled);
  EXPECT_EQ(cache().stats().at("failures").as_int(), 0);
}

TEST_F(Cache, RefusedUnitsAreNotCompiledAgain) {
  auto first = failure([&] { get(unit("a", "return nonsense;")); });
  ASSERT_TRUE(first);
  auto second = failure([&] { get(unit("a", "return nonsense;")); });
  ASSERT_TRUE(second);
  EXPECT_EQ(compiles(), 1u);
  EXPECT_EQ(second->code(), ErrorCode::compile_failed);
  EXPECT_EQ(second->what_happened(), first->what_happened());
  EXPECT_NE(second->what_to_do().find("cache clear"), std::string::npos);
  EXPECT_EQ(cache().stats().at("failures").as_int(), 1);
  cache().clear();
  EXPECT_EQ(cache().stats().at("failures").as_int(), 0);
  EXPECT_TRUE(failure([&] { get(unit("a", "return nonsense;")); }));
  EXPECT_EQ(compiles(), 2u);
  // Without a place to write it down the process remembers.
  KernelCache::Options options;
  options.read_only = true;
  options.directory = dir_.path() + "/none";
  KernelCache blind(options);
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(failure([&] { blind.get_or_build(unit("a", "return nonsense;"), backend_); }));
  EXPECT_EQ(compiles(), 3u);
}

TEST_F(Cache, KilledAndHangingCompilersAreNotRemembered) {
  const std::string good = getenv("TESSERA_CXX");
  set_compiler("changing", "test -e " + dir_.path() + "/well && exec " + good +
                               " \"$@\"; case \"$*\" in *\" -o \"*) kill -9 $$;; esac");
  auto error = failure([&] { get(unit("a")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::io);
  write_file(dir_.path() + "/well", "");
  EXPECT_EQ(get(unit("a")), From::compiled);

  set_compiler("sleeping", "case \"$*\" in *\" -o \"*) sleep 60;; esac");
  backend_.timeout_s = 0.2;
  error = failure([&] { get(unit("b")); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->what_happened().find("did not finish"), std::string::npos) << error->what();
  setenv("TESSERA_CXX", good.c_str(), 1);
  backend_.timeout_s = kCompileTimeoutS;
  EXPECT_EQ(get(unit("b")), From::compiled);
}

TEST_F(Cache, WithoutCompilerAnyBuildServes) {
  get(unit("a"));
  unsetenv("TESSERA_CXX");
  Variable path("PATH", dir_.path());
  unsetenv("CXX");
  ASSERT_EQ(backend_.compiler_identity(), "");
  EXPECT_TRUE(cache().contains(unit("a"), backend_));
  EXPECT_EQ(get(unit("a")), From::disk);
  EXPECT_FALSE(cache().contains(unit("b"), backend_));
  auto error = failure([&] { get(unit("b")); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->what_to_do().find("apt install g++"), std::string::npos) << error->what();
  EXPECT_EQ(cache().stats().at("failures").as_int(), 0);
}

TEST_F(Cache, ThreadsAndProcessesCompileOnce) {
  constexpr int kProcesses = 4, kThreads = 4, kUnits = 3;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      KernelCache own = cache();
      std::atomic<int> bad{0};
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (int u = 0; u < kUnits; ++u) {
            const Source s = unit("u" + std::to_string((u + t) % kUnits));
            try {
              if (own.get_or_build(s, backend_).binary.symbol != s.symbol) ++bad;
            } catch (...) { ++bad; }
          }
        });
      }
      for (std::thread& t : threads) t.join();
      _exit(bad ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(compiles(), size_t{kUnits});
  EXPECT_EQ(cache().verify(false).at("good").as_int(), kUnits);
}

TEST_F(Cache, KilledBuildersLoseNothing) {
  get(unit("kept"));
  const std::string good = getenv("TESSERA_CXX");
  set_compiler("slow", "case \"$*\" in *\" -o \"*) sleep 2;; esac; exec " + good + " \"$@\"");
  for (const int after_ms : {30, 100, 300}) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        cache().get_or_build(unit("killed"), backend_);
      } catch (...) {}
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  setenv("TESSERA_CXX", good.c_str(), 1);
  EXPECT_EQ(get(unit("kept")), From::disk);
  EXPECT_EQ(get(unit("killed")), From::compiled);  // the dead builder's lock is free
  EXPECT_EQ(get(unit("killed")), From::disk);
  EXPECT_EQ(cache().verify(false).at("bad").size(), 0u);
  cache().collect(int64_t{1} << 30);
  EXPECT_TRUE(list_directory(root_ + "/scratch").empty());  // what they left is swept
  EXPECT_TRUE(list_directory(root_ + "/locks").empty());
}

// At any moment: before, while and after the compiler runs, and while the entry is written.
TEST_F(Cache, KilledAtAnyMomentLosesNothing) {
  get(unit("kept"));
  constexpr int kKills = 24;
  for (int i = 0; i < kKills; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        cache().get_or_build(unit("k" + std::to_string(i)), backend_);
      } catch (...) {}
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * i));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(cache().verify(false).at("bad").size(), 0u) << i;
  }
  testing::internal::CaptureStderr();
  for (int i = 0; i < kKills; ++i) get(unit("k" + std::to_string(i)));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(get(unit("kept")), From::disk);
  EXPECT_EQ(cache().verify(false).at("good").as_int(), kKills + 1);
}

TEST_F(Cache, LeastRecentlyUsedGoFirst) {
  for (const char* name : {"a", "b", "c"}) {
    get(unit(name));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const int64_t all = cache().stats().at("bytes").as_int();
  get(unit("a"));  // used again: now b is the oldest
  const Json report = cache().collect(all - 1);
  EXPECT_EQ(report.at("removed").as_int(), 1);
  EXPECT_EQ(report.at("bytes").as_int(), cache().stats().at("bytes").as_int());
  EXPECT_TRUE(cache().contains(unit("a"), backend_));
  EXPECT_FALSE(cache().contains(unit("b"), backend_));
  EXPECT_TRUE(cache().contains(unit("c"), backend_));

  // Adding beyond the limit collects by itself.
  KernelCache::Options options;
  options.max_bytes = all - all / 6;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cache(options).get_or_build(unit("d"), backend_);
  EXPECT_LE(cache().stats().at("bytes").as_int(), options.max_bytes);
  EXPECT_TRUE(cache().contains(unit("d"), backend_));
  EXPECT_FALSE(cache().contains(unit("c"), backend_));
}

TEST_F(Cache, ClearRemovesEverything) {
  for (const char* name : {"a", "b"}) get(unit(name));
  EXPECT_EQ(cache().clear(), 2);
  EXPECT_EQ(cache().stats().at("entries").as_int(), 0);
  EXPECT_EQ(get(unit("a")), From::compiled);
}

TEST_F(Cache, PacksServeWithoutCompilerOrCache) {
  const CacheResult built = cache().get_or_build(unit("a"), backend_);
  PackWriter writer;
  writer.add(unit("a"), built.binary);
  writer.write(dir_.path() + "/test.pack");
  unsetenv("TESSERA_CXX");
  Variable path("PATH", dir_.path());
  unsetenv("CXX");
  KernelCache::Options options;
  options.directory = dir_.path() + "/empty";
  options.packs = {dir_.path() + "/test.pack"};
  const CacheResult packed = cache(options).get_or_build(unit("a"), backend_);
  EXPECT_EQ(packed.from, From::pack);
  EXPECT_EQ(packed.binary.bytes, built.binary.bytes);
  EXPECT_TRUE(cache(options).contains(unit("a"), backend_));
  EXPECT_FALSE(cache(options).contains(unit("b"), backend_));

  options.packs.clear();
  Variable standard("TESSERA_PACK_PATH", dir_.path() + "/test.pack");
  EXPECT_EQ(cache(options).get_or_build(unit("a"), backend_).from, From::pack);
  write_file(dir_.path() + "/test.pack",
             "damaged");  // an automatic pack that is bad is warned about and left out
  testing::internal::CaptureStderr();
  EXPECT_FALSE(cache(options).contains(unit("a"), backend_));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("test.pack"), std::string::npos);
  options.packs = {dir_.path() + "/test.pack"};  // one that was asked for is an error
  EXPECT_EQ(failure([&] { cache(options); })->code(), ErrorCode::corrupt);
}

TEST_F(Cache, DirectoryThatCannotBeMade) {
  write_file(dir_.path() + "/file", "");
  root_ = dir_.path() + "/file/below";
  testing::internal::CaptureStderr();
  EXPECT_EQ(get(unit("a")), From::compiled);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

}  // namespace
}  // namespace tessera
