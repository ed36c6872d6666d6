#include "runtime/kernel_cache.h"

#include "runtime/cache_fixture.h"
#include "runtime/pack.h"

namespace tessera {
namespace {

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

// Without a compiler none can be built anew: a damaged build must not hide the others.
TEST_F(Cache, WithoutCompilerAWholeBuildServesBesideADamagedOne) {
  get(unit("a"));
  const std::string first = entry(), other = first.substr(0, first.rfind('.')) + ".00000000";
  ASSERT_EQ(std::system(("cp -r " + first + ' ' + other).c_str()), 0);
  write_file(other + "/kernel.so", "damaged");
  unsetenv("TESSERA_CXX");
  Variable path("PATH", dir_.path());
  unsetenv("CXX");
  EXPECT_EQ(get(unit("a")), From::disk);
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

// A directory that holds somebody else's files too loses none of them, whatever their age and wherever links
// lead.
TEST_F(Cache, WhatIsNotTheCachesStays) {
  get(unit("a"));
  const std::string root = root_;
  make_directories(root + "/elsewhere/old-data");
  make_directories(root + "/db/12");
  for (const char* name : {"/elsewhere/data.txt", "/elsewhere/x.log", "/elsewhere/old-data/b",
                           "/db/12/0001.sql", "/db/notes", "/locks/mine", "/failed/report.json"}) {
    make_directories(root + name);  // of any kind: files are under less danger than directories
    const timespec old[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, (root + name).c_str(), old, 0);
  }
  remove_all(root + "/scratch");
  ASSERT_EQ(symlink("elsewhere", (root + "/scratch").c_str()), 0);
  KernelCache::Options options;
  options.max_bytes = 1;
  get(unit("b"));
  cache(options).get_or_build(unit("c"), backend_);
  cache().collect(1);
  cache().clear();
  for (const char* name : {"/elsewhere/data.txt", "/elsewhere/x.log", "/elsewhere/old-data/b",
                           "/db/12/0001.sql", "/db/notes", "/locks/mine", "/failed/report.json"})
    EXPECT_TRUE(path_exists(root + name)) << name;
}

// Where there are no descriptors left nothing is said about an entry.
TEST_F(Cache, WithoutDescriptorsEntriesStay) {
  get(unit("a"));
  const std::string entries = cache().stats().at("entries").dump();
  const pid_t child = fork();
  if (child == 0) {
    while (open("/dev/null", O_RDONLY) >= 0) {}
    try {
      cache().get_or_build(unit("a"), backend_);
    } catch (const Error&) {}
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(cache().stats().at("entries").dump(), entries);
  EXPECT_EQ(get(unit("a")), From::disk);
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

}  // namespace
}  // namespace tessera
