#include "base/fs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "tessera/error.h"

namespace tessera {
namespace {

class Fs : public testing::Test {
 protected:
  TempDir dir_{temp_directory()};
  std::string at(const std::string& name) const { return dir_.path() + '/' + name; }
};

template <class F>
std::string io_error(F&& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::io);
    return e.what();
  }
  return "no error";
}

TEST_F(Fs, WritesAndReadsWholeFiles) {
  const std::string bytes("a\0b\n", 4);
  write_file(at("file"), bytes, true);
  EXPECT_EQ(read_file(at("file")), bytes);
  write_file_whole(at("file"), "short");
  EXPECT_EQ(read_file(at("file")), "short");
  EXPECT_EQ(list_directory(dir_.path()), std::vector<std::string>{"file"});  // nothing temporary is left
  write_file(at("empty"), "");
  EXPECT_EQ(read_file(at("empty")), "");
  EXPECT_EQ(disk_usage(dir_.path()), 5);
  const std::string big(100000, 'q');
  write_file(at("big"), big);
  EXPECT_EQ(read_file(at("big")), big);
}

TEST_F(Fs, ReadsPipesThatAreNamed) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const std::string big(200000, 'q');
  std::thread writer([&] { write_file(at("pipe"), big); });
  EXPECT_EQ(read_file(at("pipe")), big);
  writer.join();
  EXPECT_NE(io_error([] { read_file("/dev/null"); }).find("cannot read"), std::string::npos);
}

TEST_F(Fs, PipesAndLinksAreNotReplaced) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  std::thread writer([&] { write_file_whole(at("pipe"), "through"); });
  EXPECT_EQ(read_file(at("pipe")), "through");
  writer.join();
  ASSERT_EQ(symlink("file", at("link").c_str()), 0);
  write_file_whole(at("link"), "linked");
  EXPECT_EQ(read_file(at("file")), "linked");
  struct stat st {};
  ASSERT_EQ(lstat(at("link").c_str(), &st), 0);
  EXPECT_TRUE(S_ISLNK(st.st_mode));
}

TEST_F(Fs, WholeFilesHaveTheModeThatTheUmaskLeaves) {
  const auto mode = [&](const char* name) {
    struct stat st {};
    return stat(at(name).c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
  };
  const mode_t before = umask(027);
  write_file_whole(at("new"), "one");
  EXPECT_EQ(mode("new"), 0640u);
  chmod(at("new").c_str(), 0600);
  EXPECT_FALSE(create_file_whole(at("new"), "other"));
  EXPECT_EQ(read_file(at("new")), "one");
  EXPECT_TRUE(create_file_whole(at("first"), "one"));
  EXPECT_EQ(read_file(at("first")), "one");
  EXPECT_THROW(create_file_whole(at("absent/first"), "one"), Error);
  write_file_whole(at("new"), "two");
  umask(before);
  EXPECT_EQ(mode("new"), 0600u);  // it has its own by now
  EXPECT_EQ(read_file(at("new")), "two");
}

TEST_F(Fs, WhatCannotBeWrittenIsKnownBefore) {
  check_writable(at("new"));
  EXPECT_FALSE(path_exists(at("new")));
  write_file(at("file"), "");
  check_writable(at("file"));
  check_writable("/dev/null");
  const std::vector<std::pair<std::string, std::string>> refused = {
      {dir_.path(), "it is a directory"},
      {at("no/file"), "there is no directory '" + at("no") + "'"},
      {at("file/below"), "'" + at("file") + "' is no directory"}};
  for (const auto& [path, why] : refused) {
    const std::string expected = "io: cannot write '" + path + "': " + why;
    EXPECT_EQ(io_error([&, &path = path] { check_writable(path); }).find(expected), 0u) << path;
    EXPECT_EQ(io_error([&, &path = path] { write_file_whole(path, "x"); }).find(expected), 0u) << path;
  }
  EXPECT_EQ(list_directory(dir_.path()), std::vector<std::string>{"file"});
}

TEST_F(Fs, NamesThePathInErrors) {
  EXPECT_FALSE(try_read_file(at("absent")));
  EXPECT_FALSE(try_read_file(dir_.path()));
  EXPECT_NE(io_error([&] { read_file(at("absent")); }).find(at("absent")), std::string::npos);
  EXPECT_NE(io_error([&] { write_file(at("no/such"), "x"); }).find("No such file"), std::string::npos);
  EXPECT_NE(io_error([&] { MappedFile::open(at("absent")); }).find("cannot open"), std::string::npos);
  EXPECT_NE(io_error([&] { MappedFile::open(dir_.path()); }).find("cannot open"), std::string::npos);
  EXPECT_NE(io_error([&] { MappedFile::open(dir_.path()); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(io_error([&] { read_file(dir_.path()); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(io_error([&] { TempDir(at("absent")); }).find("cannot create"), std::string::npos);
  write_file(at("file"), "");
  EXPECT_NE(io_error([&] { make_directories(at("file/below")); }).find("cannot create"), std::string::npos);
  EXPECT_NE(io_error([&] { make_directories(at("file")); }).find("cannot create"), std::string::npos);
}

TEST_F(Fs, MapsFiles) {
  write_file(at("file"), "content");
  write_file(at("empty"), "");
  EXPECT_EQ(MappedFile::open(at("file")).bytes(), "content");
  EXPECT_EQ(MappedFile::open(at("empty")).bytes(), "");
}

TEST_F(Fs, DirectoriesAppearWhole) {
  TempDir first(dir_.path()), second(dir_.path());
  write_file(first.path() + "/x", "first");
  write_file(second.path() + "/x", "second");
  EXPECT_TRUE(first.rename_to(at("entry")));
  EXPECT_FALSE(second.rename_to(at("entry")));
  EXPECT_EQ(read_file(at("entry/x")), "first");
  EXPECT_EQ(read_file(second.path() + "/x"), "second");  // the loser still has its own
  EXPECT_NE(io_error([&] { second.rename_to(at("no/such/entry")); }).find("cannot rename"),
            std::string::npos);
}

TEST_F(Fs, TempDirsVanishWithTheirContent) {
  std::string path;
  {
    TempDir temp(dir_.path());
    path = temp.path();
    make_directories(path + "/a/b");
    write_file(path + "/a/b/c", "x");
    EXPECT_FALSE(is_abandoned_temp_dir(path));
  }
  EXPECT_FALSE(path_exists(path));
}

TEST_F(Fs, TempDirsOfDeadProcessesAreAbandoned) {
  const pid_t child = fork();
  if (child == 0) {
    TempDir temp(dir_.path());
    _exit(0);  // without destructors
  }
  waitpid(child, nullptr, 0);
  const auto names = list_directory(dir_.path());
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(is_abandoned_temp_dir(at(names[0])));
  make_directories(at("otherhost-1-00000000deadbeef"));
  EXPECT_FALSE(is_abandoned_temp_dir(at("otherhost-1-00000000deadbeef")));
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  utimensat(AT_FDCWD, at("otherhost-1-00000000deadbeef").c_str(), old, 0);
  EXPECT_TRUE(is_abandoned_temp_dir(at("otherhost-1-00000000deadbeef")));
  for (const char* theirs : {"data", "otherhost-1-00", "a-b-c", "otherhost-x-00000000deadbeef"}) {
    make_directories(at(theirs));
    utimensat(AT_FDCWD, at(theirs).c_str(), old, 0);
    EXPECT_FALSE(is_abandoned_temp_dir(at(theirs))) << theirs;
  }
}

// A file that is a link stays one, and what it led to is not written into: others may have it open.
TEST_F(Fs, WhatALinkLeadsToIsReplacedAsAWhole) {
  write_file(at("real"), "old text");
  ASSERT_EQ(symlink("real", at("link").c_str()), 0);
  const std::unique_ptr<FILE, int (*)(FILE*)> open(fopen(at("real").c_str(), "r"), fclose);
  write_file_whole(at("link"), "new");
  EXPECT_TRUE(is_link(at("link")));
  EXPECT_EQ(read_file(at("real")), "new");
  std::array<char, 16> seen{};
  EXPECT_EQ(fread(seen.data(), 1, seen.size(), open.get()), 8u);
  EXPECT_STREQ(seen.data(), "old text");
}

TEST_F(Fs, LocksExclude) {
  FileLock held = FileLock::try_lock(at("lock"));
  ASSERT_TRUE(held);
  FileLock second = FileLock::try_lock(at("lock"));
  EXPECT_FALSE(second);
  EXPECT_EQ(second.error(), 0);
  { FileLock released = std::move(held); }
  EXPECT_TRUE(FileLock::try_lock(at("lock")));
  EXPECT_EQ(FileLock::try_lock(at("no/lock")).error(), ENOENT);
}

TEST_F(Fs, TrustsOnlyTheUsersOwn) {
  EXPECT_EQ(why_untrusted(dir_.path()), "");
  chmod(dir_.path().c_str(), 0777);
  EXPECT_EQ(why_untrusted(dir_.path()), "can be written by others (mode 777)");
  chmod(dir_.path().c_str(), 0770);
  EXPECT_NE(why_untrusted(dir_.path()), "");
  chmod(dir_.path().c_str(), 0755);
  EXPECT_EQ(why_untrusted(dir_.path()), "");
  EXPECT_NE(why_untrusted(at("absent")), "");
  if (geteuid() != 0) GTEST_SKIP() << "giving files away needs root";
  write_file(at("file"), "");
  ASSERT_EQ(chown(at("file").c_str(), 65534, 65534), 0);
  EXPECT_EQ(why_untrusted(at("file")), "belongs to user 65534, not to this one (0)");
}

TEST_F(Fs, ShortWritesAreErrors) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file_whole(at("file"), std::string(5000, 'x'));
    } catch (const Error& e) { _exit(e.code() == ErrorCode::io ? 42 : 1); }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_TRUE(list_directory(dir_.path()).empty());
}

TEST_F(Fs, StampsChangeWithTheFile) {
  EXPECT_FALSE(file_stamp(at("file")));
  write_file(at("file"), "1");
  const auto before = file_stamp(at("file"));
  write_file(at("file"), "22");
  EXPECT_NE(before, file_stamp(at("file")));
}

TEST_F(Fs, PipesThatAreNoFilesAreNotWaitedFor) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(try_read_file(at("pipe")));
  EXPECT_NE(io_error([&] { MappedFile::open(at("pipe")); }), "no error");
  std::thread writer([&] { write_file(at("pipe"), "late"); });
  EXPECT_EQ(read_file(at("pipe")), "late");
  writer.join();
}

TEST_F(Fs, ReplacingDoesNotFollowLinks) {
  write_file(at("victim"), "precious");
  ASSERT_EQ(symlink(at("victim").c_str(), at("log").c_str()), 0);
  replace_file(at("log"), "said");
  EXPECT_EQ(read_file(at("victim")), "precious");
  EXPECT_EQ(read_file(at("log")), "said");
  EXPECT_EQ(list_directory(dir_.path()), (std::vector<std::string>{"log", "victim"}));
}

}  // namespace
}  // namespace tessera
