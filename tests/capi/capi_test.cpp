// The C ABI beside the C++ API: the same choices and bits, whatever bytes and handles it is given.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "base/fs.h"
#include "base/hash.h"
#include "sanitized.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tessera/tessera.h"
#include "tune/operands.h"

namespace tessera {
namespace {

struct Text {
  char* text = nullptr;
  ~Text() { tsr_free(text); }
  Json json() const { return Json::parse(text); }
};

struct Handle {
  explicit Handle(const char* options = R"({"threads": 1, "database": "none"})") {
    EXPECT_EQ(tsr_dispatcher_create(options, nullptr, nullptr, nullptr, &dispatcher), TSR_OK)
        << tsr_last_error();
  }
  ~Handle() { tsr_dispatcher_destroy(dispatcher); }
  tsr_dispatcher* dispatcher = nullptr;
};

// Every `step`-th problem of the case lists.
std::vector<std::string> sampled_cases(size_t step) {
  std::vector<std::string> out;
  size_t seen = 0;
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_SOURCE_DIR "/tests/cases")) {
    if (entry.path().extension() == ".txt") files.insert(entry.path());
  }
  for (const std::string& path : files) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      line = line.substr(0, line.find('#'));
      if (line.find_first_not_of(' ') != line.npos && seen++ % step == 0) out.push_back(line);
    }
  }
  return out;
}

std::string c_bytes(const Operands& o) {
  const GemmView& v = o.view();
  return content_hash(
      {{static_cast<const char*>(o.c()), static_cast<size_t>(v.c.extent * bytes_of(o.problem().out))}});
}

TEST(CApi, ChoosesAndComputesWhatTheCppApiDoes) {
  Handle handle;
  Dispatcher dispatcher({.threads = 1});
  size_t ran = 0;
  for (const std::string& text : sampled_cases(5)) {
    SCOPED_TRACE(text);
    const Problem problem = Problem::parse(text);
    const Kernel* kernel;
    tsr_kernel* k = nullptr;
    try {
      kernel = &dispatcher.get(problem);
    } catch (const Error& e) {
      EXPECT_EQ(tsr_get(handle.dispatcher, text.c_str(), &k), static_cast<int>(e.code()) + 1);
      EXPECT_STREQ(tsr_last_error(), e.what());
      continue;
    }
    ASSERT_EQ(tsr_get(handle.dispatcher, text.c_str(), &k), TSR_OK) << tsr_last_error();
    Text info;
    ASSERT_EQ(tsr_kernel_info(k, &info.text), TSR_OK);
    EXPECT_EQ(info.json().at("config").as_string(), to_string(kernel->choice().config));
    Operands operands(kernel->problem(), FillKind::uniform);
    const Buffers b = operands.bind(*kernel);
    kernel->run(b);
    const std::string expected = c_bytes(operands);
    operands.reset_c();
    tsr_buffers c{.size = sizeof(tsr_buffers),
                  .flags = 0,
                  .a = b.a,
                  .b = b.b,
                  .c = b.c,
                  .d = {},
                  .alpha = 0,
                  .beta = 0,
                  .stream = nullptr,
                  .workspace = nullptr,
                  .bias_grad = b.bias_grad};
    std::copy(b.d.begin(), b.d.end(), c.d);
    ASSERT_EQ(tsr_kernel_run(k, &c), TSR_OK) << tsr_last_error();
    EXPECT_EQ(c_bytes(operands), expected);
    ++ran;
  }
  EXPECT_GT(ran, 15u);
}

TEST(CApi, TensorsAreWhatARunReads) {
  for (const std::string& text : sampled_cases(1)) {
    const Problem problem = Problem::parse(text);
    Text described;
    ASSERT_EQ(tsr_describe("problem", text.c_str(), &described.text), TSR_OK) << tsr_last_error();
    const Json json = described.json();
    EXPECT_EQ(json.at("problem").as_string(), to_string(problem));
    const GemmView view = lower(problem);
    EXPECT_EQ(json.at("tensors").size(),
              3u + problem.bias_grad + static_cast<size_t>(problem.epilogue.d_count()));
    EXPECT_EQ(json.at("tensors").at(2).at("bytes").as_int(), view.c.extent * bytes_of(problem.out));
  }
}

TEST(CApi, BuffersOfTheFirstVersionHaveNoBiasGradient) {
  Handle handle;
  const std::vector<float> dy(4, 1.0f), x(4, 2.0f);
  float dw = 0, db = 0;
  for (const char* bias : {"", " bias_grad=f32"}) {
    tsr_buffers buffers{};
    buffers.size = offsetof(tsr_buffers, bias_grad);
    buffers.a = dy.data();
    buffers.b = x.data();
    buffers.c = &dw;
    buffers.bias_grad = &db;  // beyond the size that is said
    const std::string text = std::string("conv_bwd_weight c=1 k=1 in=4 filter=1 dtype=f32") + bias;
    EXPECT_EQ(tsr_run(handle.dispatcher, text.c_str(), &buffers), *bias ? TSR_BAD_INPUT : TSR_OK);
    buffers.size = sizeof buffers;
    EXPECT_EQ(tsr_run(handle.dispatcher, text.c_str(), &buffers), TSR_OK) << tsr_last_error();
    EXPECT_EQ(dw, 8);
    EXPECT_EQ(db, *bias ? 4 : 0);
  }
}

TEST(CApi, ManyThreadsOneDispatcher) {
  Handle handle;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::string text = "gemm m=" + std::to_string(5 + t % 3) + " n=16 k=8 dtype=f32 layout=rrr";
      std::vector<float> a(8 * 8, 1.f), b(8 * 16, 2.f), c(8 * 16);
      for (int i = 0; i < 500; ++i) {
        std::fill(c.begin(), c.end(), -1.f);
        const tsr_buffers buffers{.size = sizeof(tsr_buffers),
                                  .flags = 0,
                                  .a = a.data(),
                                  .b = b.data(),
                                  .c = c.data(),
                                  .d = {},
                                  .alpha = 0,
                                  .beta = 0,
                                  .stream = nullptr,
                                  .workspace = nullptr};
        if (tsr_run(handle.dispatcher, text.c_str(), &buffers) != TSR_OK || c[0] != 16 || c[5 * 16 - 1] != 16)
          ++wrong;
        if (tsr_run(handle.dispatcher, "gemm m=1", &buffers) != TSR_BAD_INPUT ||
            !std::strstr(tsr_last_error(), "n"))
          ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CApi, DestroyedBesideRunsThatGoOn) {
  std::vector<float> a(64 * 64, 1.f), b(64 * 64, 2.f);
  for (int round = 0; round < 20; ++round) {
    Handle handle;
    tsr_kernel* kernel = nullptr;
    ASSERT_EQ(tsr_get(handle.dispatcher, "gemm m=64 n=64 k=64 dtype=f32 layout=rrr", &kernel), TSR_OK);
    std::atomic<int> running{0}, wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        std::vector<float> c(64 * 64);
        tsr_buffers buffers{};
        buffers.size = sizeof buffers;
        buffers.a = a.data();
        buffers.b = b.data();
        buffers.c = c.data();
        tsr_status status = TSR_OK;
        for (int i = 0; status == TSR_OK; ++i) {
          std::fill(c.begin(), c.end(), -1.f);
          status = i % 2 ? tsr_kernel_run(kernel, &buffers)
                         : tsr_run(handle.dispatcher, "gemm m=64 n=64 k=64 dtype=f32 layout=rrr", &buffers);
          if (status == TSR_OK && (c[0] != 128 || c.back() != 128)) ++wrong;
          if (i == 0) ++running;
        }
        if (status != TSR_BAD_INPUT) ++wrong;
      });
    }
    while (running < 4) std::this_thread::yield();
    tsr_dispatcher_destroy(handle.dispatcher);
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST(CApi, RefusesRandomBytesAndHandles) {
  Handle handle;
  std::mt19937_64 random(7);
  const std::string alphabet = "gemm mnk=0123456789 dtype:f32{}\"[],-x\x01\xff rcr batch";
  Text none;
  for (int i = 0; i < 3000; ++i) {
    std::string text(random() % 60, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    auto* anything = reinterpret_cast<tsr_kernel*>(random() >> (random() % 64));
    Text out;
    tsr_kernel* k = nullptr;
    EXPECT_NE(tsr_get(handle.dispatcher, text.c_str(), &k), TSR_OK) << text;
    tsr_registry* r = nullptr;
    if (tsr_registry_create(text.c_str(), text.c_str(), &r) == TSR_OK) tsr_registry_destroy(r);
    tsr_dispatcher* d = nullptr;
    if (tsr_dispatcher_create(text.c_str(), nullptr, nullptr, nullptr, &d) == TSR_OK)
      tsr_dispatcher_destroy(d);
    EXPECT_NE(tsr_job(text.c_str(), text.c_str(), nullptr, nullptr, &out.text), TSR_OK);
    EXPECT_EQ(tsr_kernel_info(anything, &none.text), TSR_BAD_INPUT);
    EXPECT_EQ(tsr_kernel_run(anything, nullptr), TSR_BAD_INPUT);
    EXPECT_EQ(tsr_get(reinterpret_cast<tsr_dispatcher*>(anything), "", &k), TSR_BAD_INPUT);
    tsr_dispatcher_destroy(reinterpret_cast<tsr_dispatcher*>(anything));
    tsr_registry_destroy(reinterpret_cast<tsr_registry*>(anything));
  }
}

TEST(CApi, NullArgumentsAreRefused) {
  Handle handle;
  Text out;
  EXPECT_EQ(tsr_get(handle.dispatcher, nullptr, nullptr), TSR_BAD_INPUT);
  EXPECT_EQ(tsr_describe(nullptr, nullptr, &out.text), TSR_BAD_INPUT);
  EXPECT_EQ(tsr_describe("library", nullptr, nullptr), TSR_BAD_INPUT);
  EXPECT_EQ(tsr_dispatcher_create(nullptr, nullptr, nullptr, nullptr, nullptr), TSR_BAD_INPUT);
  EXPECT_EQ(tsr_job(nullptr, nullptr, nullptr, nullptr, &out.text), TSR_BAD_INPUT);
  EXPECT_EQ(tsr_explain(handle.dispatcher, "gemm m=4 n=4 k=4 dtype=f32", "[1]", &out.text), TSR_BAD_INPUT);
}

TEST(CApi, RefusesNumbersAndBuffersThatCannotBe) {
  Handle handle;
  Text out;
  EXPECT_EQ(tsr_build(handle.dispatcher, "gemm m=4 n=4 k=4 dtype=f32", -3, nullptr, nullptr, &out.text),
            TSR_BAD_INPUT);
  tsr_dispatcher* d = nullptr;
  EXPECT_EQ(tsr_dispatcher_create(R"({"device": "cpu:4", "threads": 2})", nullptr, nullptr, nullptr, &d),
            TSR_BAD_INPUT);
  EXPECT_EQ(
      tsr_dispatcher_create(R"({"policy": "model", "config": "cpu_dot"})", nullptr, nullptr, nullptr, &d),
      TSR_BAD_INPUT);
  tsr_kernel* k = nullptr;
  ASSERT_EQ(tsr_get(handle.dispatcher, "gemm m=5 n=16 k=8 dtype=f32 layout=rrr prepack=b", &k), TSR_OK);
  Text info;
  ASSERT_EQ(tsr_kernel_info(k, &info.text), TSR_OK);
  std::vector<float> b(16 * 8 + 1),
      packed(static_cast<size_t>(info.json().at("packed_b_bytes").as_int()) / 4);
  char* const odd = reinterpret_cast<char*>(b.data()) + 1;
  EXPECT_EQ(tsr_kernel_pack_b(k, nullptr, packed.data(), -1), TSR_BAD_INPUT);
  EXPECT_EQ(tsr_kernel_pack_b(k, b.data(), nullptr, -1), TSR_BAD_INPUT);
  EXPECT_EQ(tsr_kernel_pack_b(k, odd, packed.data(), -1), TSR_BAD_INPUT);
  EXPECT_EQ(tsr_kernel_pack_b(k, packed.data(), packed.data(), -1), TSR_BAD_INPUT);
  EXPECT_EQ(tsr_kernel_pack_b(k, b.data(), packed.data(), -1), TSR_OK) << tsr_last_error();
}

TEST(CApi, InterruptStopsABuildAndLeavesTheRestUsable) {
  if (TESSERA_SANITIZED) GTEST_SKIP() << "a sanitizer's runtime does not start threads in a forked child";
  if (testing::UnitTest::GetInstance()->test_to_run_count() > 1)
    GTEST_SKIP() << "forks, which other tests of this process would forbid; ctest runs it alone";
  TempDir dir(temp_directory());
  const std::string slow = dir.path() + "/slow-c++", at_work = dir.path() + "/at-work";
  write_file(slow, "#!/bin/sh\ncase \"$*\" in *\" -o \"*) ;; *) exec g++ \"$@\" ;; esac\n: >" + at_work +
                       "\nexec sleep 60\n");
  chmod(slow.c_str(), 0700);
  const pid_t pid = fork();  // TESSERA_CXX is read once in a process
  if (pid == 0) {
    setenv("TESSERA_CXX", slow.c_str(), 1);
    setenv("TESSERA_CACHE_DIR", (dir.path() + "/cache").c_str(), 1);
    tsr_dispatcher* d = nullptr;
    if (tsr_dispatcher_create(R"({"threads": 1})", nullptr, nullptr, nullptr, &d)) _exit(10);
    std::chrono::steady_clock::time_point asked;
    std::thread stopper([&] {
      while (!path_exists(at_work)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      asked = std::chrono::steady_clock::now();
      tsr_interrupt(1);
    });
    Text out;
    const tsr_status status = tsr_build(d, "gemm m=20 n=24 k=28 dtype=f16\ngemm m=21 n=24 k=28 dtype=f16", 2,
                                        nullptr, nullptr, &out.text);
    stopper.join();
    if (status != TSR_INTERRUPTED) _exit(11);
    if (std::chrono::steady_clock::now() - asked > std::chrono::seconds(1)) _exit(12);
    tsr_interrupt(0);
    Text info;
    _exit(tsr_dispatcher_info(d, &info.text) == TSR_OK ? 0 : 13);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(CApi, AForkedChildIsRefusedOnceADeviceWasUsed) {
  if (TESSERA_SANITIZED) GTEST_SKIP() << "a sanitizer's runtime refuses forks of a process with threads";
  Handle handle;
  const pid_t pid = fork();
  if (pid == 0) {
    Text out;
    tsr_dispatcher* d = nullptr;
    const bool refused = tsr_dispatcher_info(handle.dispatcher, &out.text) == TSR_DEVICE &&
                         std::strstr(tsr_last_error(), "forked") &&
                         tsr_dispatcher_create(nullptr, nullptr, nullptr, nullptr, &d) == TSR_DEVICE;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(CApi, LogLinesGoToTheCallback) {
  std::vector<std::string> lines;
  tsr_set_log(
      [](void* user, int level, const char* text) {
        static_cast<std::vector<std::string>*>(user)->push_back(std::to_string(level) + text);
      },
      &lines);
  TempDir dir(temp_directory());
  write_file(dir.path() + "/cache", "");  // no directory: said once, in a warning or an error
  Text out;
  Handle handle(("{\"threads\": 1, \"cache_dir\": \"" + dir.path() + "/cache\"}").c_str());
  tsr_kernel* k = nullptr;
  tsr_get(handle.dispatcher, "gemm m=3 n=3 k=3 dtype=f16", &k);
  tsr_set_log(nullptr, nullptr);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0][0], '1');
}

}  // namespace
}  // namespace tessera
