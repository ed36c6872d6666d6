#include "backend/cpu/compile.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "backend/cpu/shared_object.h"
#include "base/fs.h"
#include "base/process.h"
#include "tessera/error.h"
#include "variable.h"

namespace tessera {
namespace {

class Compile : public testing::Test {
 protected:
  std::string script(const std::string& name, const std::string& body) {
    const std::string path = dir_.path() + '/' + name;
    write_file(path, "#!/bin/sh\n" + body + "\n");
    chmod(path.c_str(), 0755);
    return path;
  }

  static Source source(const std::string& body) {
    Source s;
    s.arch = "any";
    s.symbol = "tsr_test_unit";
    s.unit =
        "extern \"C\" __attribute__((visibility(\"default\"))) int tsr_test_unit(int x) { " + body + " }\n";
    return s;
  }

  std::optional<Error> failure(const Source& s, double timeout_s = 30) {
    try {
      compile_cpp(s, dir_.path(), timeout_s);
    } catch (const Error& e) { return e; }
    return std::nullopt;
  }

  TempDir dir_{temp_directory()};
  Variable cache_{"TESSERA_CACHE_DIR", dir_.path() + "/cache"};
  Variable cxx_{"CXX", std::nullopt};
  Variable own_{"TESSERA_CXX", std::nullopt};
};

TEST_F(Compile, MakesASharedObject) {
  const Binary binary = compile_cpp(source("return x + 41;"), dir_.path());
  EXPECT_EQ(binary.symbol, "tsr_test_unit");
  const std::string path = dir_.path() + "/k.so";
  write_file(path, binary.bytes);
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  auto entry = reinterpret_cast<int (*)(int)>(dlsym(module, "tsr_test_unit"));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry(1), 42);
  dlclose(module);
  EXPECT_EQ(list_directory(dir_.path()), (std::vector<std::string>{"cache", "k.so"}));  // nothing left behind
}

TEST_F(Compile, BothCompilersWork) {
  for (const char* name : {"g++", "clang++"}) {
    if (find_program(name).empty()) GTEST_SKIP() << name << " is not installed";
    Variable own("TESSERA_CXX", name);
    EXPECT_EQ(compile_cpp(source("return x;"), dir_.path()).bytes.substr(1, 3), "ELF") << name;
    EXPECT_NE(find_cpp_compiler().identity.find("version"), std::string::npos)
        << find_cpp_compiler().identity;
  }
}

TEST_F(Compile, FlagsReachTheCompiler) {
  Source s = source("return TSR_VALUE;");
  EXPECT_TRUE(failure(s));
  s.flags = {"-DTSR_VALUE=3"};
  EXPECT_FALSE(failure(s));
  Variable own("TESSERA_CXX", "g++ -DTSR_VALUE=4");
  EXPECT_FALSE(failure(source("return TSR_VALUE;")));
}

TEST_F(Compile, IdentityIsTheSameWhereverTheCompilerIs) {
  const std::string usual = find_cpp_compiler().identity;
  ASSERT_NE(usual, "");
  EXPECT_EQ(usual.find('/'), std::string::npos) << usual;
  const std::string wrapper = script("my-compiler", "exec " + find_cpp_compiler().command[0] + " \"$@\"");
  Variable own("TESSERA_CXX", wrapper);
  EXPECT_EQ(find_cpp_compiler().identity, usual);
  Variable flagged("TESSERA_CXX", wrapper + " -g");
  EXPECT_NE(find_cpp_compiler().identity, usual);
}

TEST_F(Compile, IdentityIsRememberedOnDisk) {
  const std::string calls = dir_.path() + "/calls";
  const std::string wrapper = script("counting", "echo x >> " + calls + "\nexec g++ \"$@\"");
  Variable own("TESSERA_CXX", wrapper);
  const std::string identity = find_cpp_compiler().identity;
  EXPECT_EQ(find_cpp_compiler().identity, identity);
  EXPECT_EQ(list_directory(dir_.path() + "/cache/compilers").size(), 1u);
  // The same cache under another name is as good as a new process: nothing of it is in memory.
  ASSERT_TRUE(run_process({"cp", "-r", dir_.path() + "/cache", dir_.path() + "/copy"}, "", 20).ok());
  Variable copy("TESSERA_CACHE_DIR", dir_.path() + "/copy");
  EXPECT_EQ(find_cpp_compiler().identity, identity);
  EXPECT_EQ(read_file(calls), "x\n");
}

TEST_F(Compile, RefusedUnitsLeaveALog) {
  const auto error = failure(source("return no_such_name;"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::compile_failed);
  EXPECT_NE(error->what_happened().find("no_such_name"), std::string::npos) << error->what();
  const std::string log = dir_.path() + "/tsr_test_unit.log";
  EXPECT_NE(error->what_to_do().find(log), std::string::npos) << error->what();
  const std::string text = read_file(log);
  EXPECT_NE(text.find("exited with status 1"), std::string::npos);
  EXPECT_NE(text.find("return no_such_name;"), std::string::npos);
}

TEST_F(Compile, MissingCompilerSaysWhatToInstall) {
  Variable path("PATH", dir_.path());
  EXPECT_EQ(find_cpp_compiler().identity, "");
  const auto error = failure(source("return x;"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::compile_failed);
  EXPECT_NE(std::string(error->what()).find("apt install g++"), std::string::npos) << error->what();
  EXPECT_NE(std::string(error->what()).find("pack"), std::string::npos);
}

TEST_F(Compile, WrongNameIsNotReplaced) {
  Variable own("TESSERA_CXX", "tessera-no-such-compiler");
  EXPECT_EQ(find_cpp_compiler().identity, "");
  EXPECT_NE(find_cpp_compiler().missing.find("tessera-no-such-compiler"), std::string::npos);
  EXPECT_TRUE(failure(source("return x;")));
}

TEST_F(Compile, KilledCompilerIsNotARefusal) {
  Variable own("TESSERA_CXX", script("dies", "kill -9 $$"));
  auto error = failure(source("return x;"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::io);
  EXPECT_NE(error->what_happened().find("killed by signal 9"), std::string::npos) << error->what();

  // As the driver puts it when only the compiler proper was killed.
  Variable driver(
      "TESSERA_CXX",
      script("driver", "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1"));
  error = failure(source("return x;"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::io);
}

TEST_F(Compile, HangingCompilerIsStopped) {
  Variable own("TESSERA_CXX", script("hangs", "case \"$*\" in *-v*) exit 0;; esac; sleep 60"));
  const auto began = std::chrono::steady_clock::now();
  const auto error = failure(source("return x;"), 0.3);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::io);
  EXPECT_NE(error->what_happened().find("did not finish"), std::string::npos) << error->what();
}

TEST_F(Compile, CompilerThatMakesNothingIsAnError) {
  Variable own("TESSERA_CXX", script("lazy", "exit 0"));
  const auto error = failure(source("return x;"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::io);
}

// A full disk in a compiler that does not look: what is mapped of such a file ends the process.
TEST_F(Compile, AnImageThatIsCutShortIsAnError) {
  const std::string real = find_cpp_compiler().command.at(0);
  for (const int bytes : {3, 40, 100, 1000}) {
    Variable own("TESSERA_CXX", script("cuts" + std::to_string(bytes),
                                       real + " \"$@\" || exit 1; for o; do :; done; truncate -s " +
                                           std::to_string(bytes) + " \"$o\""));
    const auto error = failure(source("return x;"));
    ASSERT_TRUE(error) << bytes;
    EXPECT_EQ(error->code(), ErrorCode::io) << error->what();
  }
  const std::string whole = compile_cpp(source("return x + 41;"), dir_.path()).bytes;
  EXPECT_EQ(why_not_shared_object(whole), "");
  for (size_t size = 0; size < whole.size(); ++size)
    ASSERT_NE(why_not_shared_object(std::string_view(whole).substr(0, size)), "") << size;
}

TEST_F(Compile, WhatIsWrongWithTheCompilerIsNotARefusal) {
  for (const char* said :
       {"g++: fatal error: cannot execute 'as': execvp: No such file or directory",
        "collect2: fatal error: cannot find 'ld'", "cc1plus: error: bad value 'x' for '-march=' switch",
        "<stdin>:3:1: internal compiler error: Segmentation fault", "this is no compiler"}) {
    Variable own("TESSERA_CXX", script("broken", std::string("echo \"") + said + "\" >&2; exit 1"));
    const auto error = failure(source("return x;"));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::io) << said;
    EXPECT_NE(error->what_happened().find(said), std::string::npos) << error->what();
    EXPECT_NE(error->what_to_do().find("TESSERA_CXX"), std::string::npos) << error->what();
  }
  Variable linker("TESSERA_CXX", script("linker",
                                        "echo 'ld: cannot find -lodd' >&2\n"
                                        "echo 'collect2: error: ld returned 1 exit status' >&2; exit 1"));
  const auto unlinked = failure(source("return x;"));
  ASSERT_TRUE(unlinked);
  EXPECT_NE(unlinked->what_happened().find("ld: cannot find -lodd"), std::string::npos) << unlinked->what();
  for (const char* said : {"<stdin>:3:1: error: no such name", "cpu/tile.h:12: fatal error: no such file"}) {
    Variable own("TESSERA_CXX", script("refuses", std::string("echo '") + said + "' >&2; exit 1"));
    const auto error = failure(source("return x;"));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::compile_failed) << said;
  }
}

TEST_F(Compile, ADriverWithoutItsToolsIsNotARefusal) {
  const std::string real = find_program("g++");
  if (real.empty()) GTEST_SKIP() << "no g++ here";
  ASSERT_EQ(symlink(real.c_str(), (dir_.path() + "/g++").c_str()), 0);
  Variable path("PATH", dir_.path());
  const auto error = failure(source("return x;"));
  if (!error) GTEST_SKIP() << "this g++ finds its tools by itself";
  EXPECT_EQ(error->code(), ErrorCode::io) << error->what();
}

TEST_F(Compile, TheFileTellsCompilersOfOneIdentityApart) {
  const std::string body = "exec g++ \"$@\"";
  Variable one("TESSERA_CXX", script("one", body));
  const CppCompiler first = find_cpp_compiler();
  Variable other("TESSERA_CXX", script("other", body));
  const CppCompiler second = find_cpp_compiler();
  EXPECT_EQ(first.identity, second.identity);
  EXPECT_NE(first.file, second.file);
}

TEST_F(Compile, LogsDoNotFollowLinks) {
  write_file(dir_.path() + "/victim", "precious");
  ASSERT_EQ(symlink((dir_.path() + "/victim").c_str(), (dir_.path() + "/tsr_test_unit.log").c_str()), 0);
  ASSERT_TRUE(failure(source("return no_such_name;")));
  EXPECT_EQ(read_file(dir_.path() + "/victim"), "precious");
  EXPECT_NE(read_file(dir_.path() + "/tsr_test_unit.log").find("no_such_name"), std::string::npos);
}

}  // namespace
}  // namespace tessera
