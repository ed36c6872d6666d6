// What may go wrong around a dispatcher's kernels: compilers whose output does not load, kernels that are
// damaged, no compiler at all.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/process.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "runtime/kernel_cache.h"
#include "runtime/pack.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tessera/registry.h"
#include "variable.h"

namespace tessera {
namespace {

// Compiles to something that is whole and no library, under the name of the real compiler.
class MakesJunk : public Backend {
 public:
  const ArchSpec& arch() const override { return real_->arch(); }
  std::string compiler_identity() const override { return real_->compiler_identity(); }
  Binary compile(const Source& source, const std::string&) const override { return {source.symbol, "junk"}; }
  std::shared_ptr<Module> load(const Binary& binary) const override { return real_->load(binary); }
  std::unique_ptr<Kernel> prepare(std::shared_ptr<Module> module, const Problem& problem,
                                  const Choice& choice) const override {
    return real_->prepare(std::move(module), problem, choice);
  }

 private:
  std::unique_ptr<Backend> real_ = make_backend("cpu", 1);
};

class DispatcherFaults : public testing::Test {
 protected:
  DispatcherFaults() {
    registry_ = std::make_shared<Registry>("two");
    const auto all = Dispatcher({.threads = 1}).explain(problem_).candidates;
    for (int i : {0, 1}) {
      both_[i] = all[static_cast<size_t>(i)].config;
      registry_->add({.config = to_string(both_[i]), .exact = true, .priority = 1 - i});
    }
  }

  std::string at(const std::string& name) const { return dir_.path() + '/' + name; }
  Source source(int i) const { return render(lower(problem_), both_[i], backend_->arch()); }

  DispatcherOptions options() const {
    DispatcherOptions o;
    o.threads = 1;
    o.cache_dir = at("cache");
    o.registry = registry_;
    return o;
  }
  KernelCache cache() const { return KernelCache({.directory = at("cache"), .standard_packs = false}); }

  void script(const std::string& name, const std::string& body) const {
    write_file(at(name), "#!/bin/sh\n" + body + "\n");
    chmod(at(name).c_str(), 0755);
  }

  void expect_runs(const Kernel& kernel) const {
    const std::vector<float> a(33 * 17, 1.f), b(17 * 20, 2.f);
    std::vector<float> c(33 * 20, -1.f);
    kernel.run({.a = a.data(), .b = b.data(), .c = c.data()});
    EXPECT_EQ(c, std::vector<float>(c.size(), 34.f));
  }

  const Problem problem_ = Problem::parse("gemm m=33 n=20 k=17 dtype=f32 layout=rrr epilogue=relu,relu");
  TempDir dir_{temp_directory()};
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 1);
  std::shared_ptr<Registry> registry_;
  KernelConfig both_[2];  // the preferred one first
};

TEST_F(DispatcherFaults, AKernelThatDoesNotLoadIsBuiltAnew) {
  KernelCache spoilt = cache();
  spoilt.get_or_build(source(0), MakesJunk());
  EXPECT_EQ(cache().get_or_build(source(0), *backend_).binary.bytes, "junk");
  testing::internal::CaptureStderr();
  Dispatcher d(options());
  BuildInfo info;
  const Kernel& kernel = d.get(problem_, &info);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(info.from, BuildInfo::From::compiled);
  EXPECT_EQ(kernel.choice().config, both_[0]);
  expect_runs(kernel);
  EXPECT_NE(said.find("does not load"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  Dispatcher(options()).get(problem_, &info);
  EXPECT_EQ(info.from, BuildInfo::From::disk);
}

TEST_F(DispatcherFaults, APackedKernelThatDoesNotLoadIsBuiltAnew) {
  PackWriter writer;
  writer.add(source(0), {source(0).symbol, "junk"});
  writer.write(at("junk.pack"));
  DispatcherOptions o = options();
  o.packs = {at("junk.pack")};
  Dispatcher d(o);
  BuildInfo info;
  expect_runs(d.get(problem_, &info));
  EXPECT_EQ(info.from, BuildInfo::From::compiled);
}

TEST_F(DispatcherFaults, WhatACompilerMakesAndDoesNotLoadIsNotKept) {
  script("needing",
         "case \"$*\" in *\" -o \"*) { cat; echo 'extern \"C\" void tsr_nowhere(); "
         "__attribute__((used)) void (*tsr_call)() = tsr_nowhere;'; } | g++ \"$@\"; exit;; esac; "
         "exec g++ \"$@\"");
  {
    const Variable own("TESSERA_CXX", at("needing"));
    Dispatcher d(options());
    for (int i = 0; i < 2; ++i) {
      try {
        d.get(problem_);
        ADD_FAILURE() << "it loaded";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::compile_failed) << e.what();
        EXPECT_NE(e.what_happened().find("does not load"), std::string::npos) << e.what();
        EXPECT_NE(e.what_to_do().find("TESSERA_CXX"), std::string::npos) << e.what();
      }
    }
    EXPECT_EQ(cache().stats().at("entries").as_int(), 0);
    EXPECT_EQ(cache().stats().at("failures").as_int(), 0);
  }
  // It said to be g++.
  Dispatcher d(options());
  expect_runs(d.get(problem_));
}

class NoCompiler : public DispatcherFaults {
 protected:
  // One of the two as a compiler makes it, in a cache of its own.
  Binary built(int i) const {
    return KernelCache({.directory = at("made")}).get_or_build(source(i), *backend_).binary;
  }

  void expect_second(const DispatcherOptions& o) const {
    const Variable own("TESSERA_CXX", ""), cxx("CXX", ""), path("PATH", dir_.path());
    ASSERT_EQ(backend_->compiler_identity(), "");
    Dispatcher d(o);
    BuildInfo info;
    const Kernel& kernel = d.get(problem_, &info);
    EXPECT_EQ(kernel.choice().config, both_[1]);
    EXPECT_EQ(kernel.choice().source, ChoiceSource::model);
    EXPECT_EQ(info.from, BuildInfo::From::disk);
    expect_runs(kernel);
  }
};

TEST_F(NoCompiler, ADamagedPackLeavesTheNextBest) {
  PackWriter writer;
  writer.add(source(0), built(0));
  writer.write(at("dam.pack"));
  std::string bytes = read_file(at("dam.pack"));
  bytes[bytes.size() - 200] ^= 1;
  write_file(at("dam.pack"), bytes);
  ASSERT_EQ(Pack::open(at("dam.pack"))->damaged().size(), 1u);
  cache().get_or_build(source(1), *backend_);
  DispatcherOptions o = options();
  o.packs = {at("dam.pack")};
  expect_second(o);
}

TEST_F(NoCompiler, ADamagedEntryLeavesTheNextBest) {
  KernelCache own = cache();
  own.get_or_build(source(0), *backend_);
  std::string entry;
  for (const std::string& first : list_directory(own.directory())) {
    if (first.size() != 2) continue;
    const std::string folder =
        own.directory() + '/' + first + '/' + list_directory(own.directory() + '/' + first)[0];
    entry = folder + '/' + list_directory(folder)[0];
  }
  ASSERT_EQ(truncate((entry + "/kernel.so").c_str(), 100), 0);
  own.get_or_build(source(1), *backend_);
  expect_second(options());
}

TEST_F(NoCompiler, AKernelThatDoesNotLoadLeavesTheNextBest) {
  KernelCache own = cache();
  own.get_or_build(source(0), MakesJunk());
  own.get_or_build(source(1), *backend_);
  expect_second(options());
}

}  // namespace
}  // namespace tessera
