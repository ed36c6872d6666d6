// What may go wrong around a cache: damage, foreign hands, full disks, killed processes.
#include "runtime/kernel_cache.h"

#include "runtime/cache_fixture.h"

namespace tessera {
namespace {

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
      [](const std::string& e) {
        unlink((e + "/kernel.so").c_str());
        ASSERT_EQ(mkfifo((e + "/kernel.so").c_str(), 0600), 0);  // nobody ever writes to it
      },
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

TEST_F(Cache, DirectoryThatCannotBeMade) {
  write_file(dir_.path() + "/file", "");
  root_ = dir_.path() + "/file/below";
  testing::internal::CaptureStderr();
  EXPECT_EQ(get(unit("a")), From::compiled);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(Cache, WhetherEntriesCanBeStoredIsKnown) {
  EXPECT_EQ(cache().why_unwritable(), "");
  KernelCache::Options options;
  options.read_only = true;
  EXPECT_EQ(cache(options).why_unwritable(), "it is read-only");
  const std::string left = root_ + "/scratch";
  EXPECT_EQ(run_child([&] {
              new TempDir(left);  // of a process that dies before it is removed
              return 0;
            }),
            0);
  EXPECT_EQ(list_directory(left).size(), 1u);
  EXPECT_EQ(cache().why_unwritable(), "");
  EXPECT_TRUE(list_directory(left).empty());
  write_file(dir_.path() + "/file", "");
  root_ = dir_.path() + "/file/below";
  EXPECT_EQ(cache().why_unwritable().find("cannot create '" + root_), 0u) << cache().why_unwritable();
}

TEST_F(Cache, WhatIsWrongWithTheCompilerIsNotRemembered) {
  const std::string good = getenv("TESSERA_CXX");
  set_compiler("broken",
               "case \"$*\" in *\" -o \"*) echo \"g++: fatal error: cannot find 'ld'\" >&2; exit 1;; "
               "esac; exec " +
                   good + " \"$@\"");
  const auto error = failure([&] { get(unit("a")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::io) << error->what();
  EXPECT_EQ(cache().stats().at("failures").as_int(), 0);
  setenv("TESSERA_CXX", good.c_str(), 1);
  EXPECT_EQ(get(unit("a")), From::compiled);
}

// Both say to be the same compiler.
TEST_F(Cache, WhatOneCompilerRefusesIsNotHeldAgainstAnother) {
  const std::string good = getenv("TESSERA_CXX");
  set_compiler("refusing", "case \"$*\" in *\" -o \"*) echo x >> " + calls_ +
                               "; echo '<stdin>:1:1: error: no' >&2; exit 1;; esac; exec " + good +
                               " \"$@\"");
  for (int i = 0; i < 2; ++i) {
    const auto error = failure([&] { get(unit("a")); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::compile_failed) << error->what();
    EXPECT_EQ(compiles(), 1u);
  }
  setenv("TESSERA_CXX", good.c_str(), 1);
  EXPECT_EQ(get(unit("a")), From::compiled);
}

TEST_F(Cache, AStoppedBuilderIsNamed) {
  const std::string real = getenv("TESSERA_CXX"), gate = dir_.path() + "/gate",
                    begun = dir_.path() + "/begun";
  set_compiler("stopping", "case \"$*\" in *\" -o \"*) test -e " + gate + " || { : >" + begun +
                               "; exec sleep 60; };; esac; exec " + real + " \"$@\"");
  const std::string compiler = getenv("TESSERA_CXX");
  const pid_t child = fork();
  if (child == 0) {
    try {
      cache().get_or_build(unit("a"), backend_);
    } catch (...) {}
    _exit(0);
  }
  while (!path_exists(begun)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(child, SIGSTOP);
  write_file(gate, "");
  testing::internal::CaptureStderr();
  From from = From::disk;
  std::thread waiting([&] { from = get(unit("a")); });
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  waiting.join();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(from, From::compiled);
  EXPECT_NE(said.find("another process (" + std::to_string(child) + ")"), std::string::npos) << said;
  EXPECT_NE(said.find(root_ + "/locks/"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

}  // namespace
}  // namespace tessera
