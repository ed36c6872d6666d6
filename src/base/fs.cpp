#include "base/fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr int64_t kAbandonedAfterSeconds = 3600;

[[noreturn]] void fail(const std::string& action, const std::string& path, int error) {
  throw Error(ErrorCode::io, "cannot " + action + " '" + path + "': " + strerror(error));
}

int not_a_file(const struct stat& st) { return S_ISDIR(st.st_mode) ? EISDIR : EINVAL; }

FileHandle open_file(const std::string& path, int flags, mode_t mode = 0600) {
  return FileHandle(open(path.c_str(), flags | O_CLOEXEC, mode));
}

void sync_directory(const std::string& path) {
  FileHandle folder = open_file(path, O_RDONLY | O_DIRECTORY);
  if (folder) fsync(folder.get());
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

const std::string& host_name() {
  static const auto& name = *new std::string([] {  // for threads while the process ends
    std::array<char, 256> text{};
    gethostname(text.data(), text.size() - 1);
    std::string host = text.data();
    // Processes of another namespace have numbers of their own: to these it is another host.
    struct stat pids {};
    if (stat("/proc/self/ns/pid", &pids) == 0) host += '.' + std::to_string(pids.st_ino);
    for (char& c : host) {
      if (c == '-' || c == '/') c = '_';
    }
    return host;
  }());
  return name;
}

// "<host>-<process>-<random>"
std::string temp_name() {
  static std::atomic<uint64_t> next{std::random_device{}() * 0x100000001ull};
  return host_name() + "-" + std::to_string(getpid()) + "-" + format("%016llx", (unsigned long long)next++);
}

}  // namespace

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

int FileHandle::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

MappedFile MappedFile::open(const std::string& path) {
  FileHandle file = open_file(path, O_RDONLY | O_NONBLOCK);
  struct stat st {};
  if (!file || fstat(file.get(), &st) != 0) fail("open", path, errno);
  if (!S_ISREG(st.st_mode)) fail("open", path, not_a_file(st));
  MappedFile mapped;
  mapped.size_ = static_cast<size_t>(st.st_size);
  if (mapped.size_ == 0) return mapped;
  void* data = mmap(nullptr, mapped.size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail("map", path, errno);
  mapped.data_ = data;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
  other.size_ = 0;
}

MappedFile::~MappedFile() {
  if (data_) munmap(data_, size_);
}

FileLock FileLock::try_lock(const std::string& path) {
  FileLock lock;
  FileHandle file = open_file(path, O_RDWR | O_CREAT);
  if (!file) {
    lock.error_ = errno;
  } else if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
    lock.file_ = std::move(file);
  } else if (errno != EWOULDBLOCK && errno != EINTR) {
    lock.error_ = errno;
  }
  return lock;
}

void FileLock::note(std::string_view text) const {
  if (ftruncate(file_.get(), 0) == 0 && pwrite(file_.get(), text.data(), text.size(), 0) < 0) return;
}

TempDir::TempDir(const std::string& parent) : path_(parent + '/' + temp_name()) {
  if (mkdir(path_.c_str(), 0700) != 0) fail("create", path_, errno);
}

TempDir::~TempDir() {
  if (!path_.empty()) remove_all(path_);
}

bool TempDir::rename_to(const std::string& target) {
  // Rename the directory, not the files: readers then see all of it or nothing.
  if (rename(path_.c_str(), target.c_str()) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) return false;
    fail("rename '" + path_ + "' to", target, errno);
  }
  path_.clear();
  return true;
}

bool is_abandoned_temp_dir(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  auto pieces = split(std::string_view(path).substr(slash == path.npos ? 0 : slash + 1), '-');
  const auto pid = pieces.size() == 3 ? parse_int(pieces[1]) : std::nullopt;
  const bool ours = pid && *pid > 0 && pieces[2].size() == 16 && is_hex(pieces[2]);
  if (!ours) return false;  // somebody else's, whatever its age
  if (pieces[0] == host_name())
    return *pid != getpid() && kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && time(nullptr) - st.st_mtim.tv_sec > kAbandonedAfterSeconds;
}

namespace {

// nullopt with errno.
std::optional<std::string> read_to_end(const std::string& path, bool pipes) {
  // Opening a pipe waits for somebody to write to it, if it is not to be refused.
  FileHandle file = open_file(path, O_RDONLY | (pipes ? 0 : O_NONBLOCK));
  struct stat st {};
  if (!file || fstat(file.get(), &st) != 0) return std::nullopt;
  if (!S_ISREG(st.st_mode) && !(pipes && S_ISFIFO(st.st_mode))) {
    errno = not_a_file(st);
    return std::nullopt;
  }
  std::string text(static_cast<size_t>(st.st_size), '\0');
  size_t length = 0;
  for (;;) {
    if (length == text.size())
      text.resize(text.size() + 4096);  // also proves the end when the size was right
    const ssize_t n = read(file.get(), text.data() + length, text.size() - length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    length += static_cast<size_t>(n);
  }
  text.resize(length);
  return text;
}

}  // namespace

std::optional<std::string> try_read_file(const std::string& path) { return read_to_end(path, false); }

std::string read_file(const std::string& path) {
  auto text = read_to_end(path, true);
  if (!text) fail("read", path, errno ? errno : EINVAL);
  return std::move(*text);
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

namespace {

// Errors name `shown`, the path that the caller knows.
void write_opened(FileHandle file, const std::string& shown, std::string_view bytes, bool durable) {
  if (!write_all(file.get(), bytes)) fail("write", shown, errno);
  if (durable && fsync(file.get()) != 0 && errno != EINVAL) fail("write", shown, errno);
  if (close(file.release()) != 0) fail("write", shown, errno);
}

bool written_in_place(const struct stat& st) { return !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode); }

}  // namespace

void write_file(const std::string& path, std::string_view bytes, bool durable) {
  FileHandle file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file) fail("create", path, errno);
  write_opened(std::move(file), path, bytes, durable);
}

void check_writable(const std::string& path) {
  const auto refuse = [&](const std::string& why, const char* remedy) {
    throw Error(ErrorCode::io, "cannot write '" + path + "': " + why, remedy);
  };
  struct stat st {};
  if (stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) refuse("it is a directory", "name a file in it");
  if (lstat(path.c_str(), &st) == 0 && written_in_place(st)) {
    if (access(path.c_str(), W_OK) != 0 && errno != ENOENT) refuse(strerror(errno), "name another file");
    return;
  }
  const std::string parent = parent_of(path);
  if (stat(parent.c_str(), &st) != 0)
    refuse("there is no directory '" + parent + "'", "create it, or name another file");
  if (!S_ISDIR(st.st_mode)) refuse("'" + parent + "' is no directory", "name another file");
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    refuse("directory '" + parent + "' cannot be written to (" + strerror(errno) + ")",
           "chmod it, or name another file");
  }
}

bool is_standard_output(const std::string& path) {
  struct stat file {};
  struct stat output {};
  return stat(path.c_str(), &file) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
         file.st_dev == output.st_dev && file.st_ino == output.st_ino;
}

void write_file_whole(const std::string& named, std::string_view bytes, bool durable) {
  if (is_standard_output(named)) {
    fflush(stdout);
    if (!write_all(STDOUT_FILENO, bytes)) fail("write", named, errno);
    return;
  }
  check_writable(named);
  struct stat st {};
  // A link stays what it is, and what it leads to is replaced as a whole: others may have it open.
  std::string path = named;
  if (is_link(named) && stat(named.c_str(), &st) == 0 && S_ISREG(st.st_mode)) {
    const std::unique_ptr<char, void (*)(void*)> target(realpath(named.c_str(), nullptr), std::free);
    if (target && access(parent_of(target.get()).c_str(), W_OK | X_OK) == 0) path = target.get();
  }
  const bool there = lstat(path.c_str(), &st) == 0;
  if (there && written_in_place(st)) {
    FileHandle file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!file) fail("write", path, errno);
    return write_opened(std::move(file), path, bytes, durable);
  }
  const std::string fresh = parent_of(path) + "/." + temp_name();
  try {
    FileHandle file = open_file(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!file || (there && fchmod(file.get(), st.st_mode & 0777) != 0)) fail("write", path, errno);
    write_opened(std::move(file), path, bytes, durable);
    if (rename(fresh.c_str(), path.c_str()) != 0) fail("write", path, errno);
  } catch (...) {
    unlink(fresh.c_str());
    throw;
  }
  if (durable) sync_directory(parent_of(path));
}

bool create_file_whole(const std::string& path, std::string_view bytes) {
  if (path_exists(path)) return false;
  check_writable(path);
  const std::string fresh = parent_of(path) + "/." + temp_name();
  write_file_whole(fresh, bytes);
  int error = link(fresh.c_str(), path.c_str()) == 0 ? 0 : errno;
  // File systems without hard links, where nothing better is to be had.
  if (error == EPERM || error == EOPNOTSUPP) error = rename(fresh.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(fresh.c_str());
  if (error && error != EEXIST) fail("write", path, error);
  sync_directory(parent_of(path));
  return error == 0;
}

void replace_file(const std::string& path, std::string_view bytes) {
  TempDir own(parent_of(path));
  const std::string fresh = own.path() + "/file";
  write_file(fresh, bytes);
  if (rename(fresh.c_str(), path.c_str()) != 0) fail("rename '" + fresh + "' to", path, errno);
}

void make_directories(const std::string& path) {
  for (size_t slash = 0; slash != path.npos;) {
    slash = path.find('/', slash + 1);
    const std::string piece = path.substr(0, slash);
    if (mkdir(piece.c_str(), 0700) == 0 || errno == EEXIST) continue;
    // A parent may be unwritable or unreadable and still be there.
    const int error = errno;
    struct stat st {};
    if (stat(piece.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) fail("create", piece, error);
  }
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) fail("create", path, ENOTDIR);
}

void remove_all(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

bool path_exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }
bool is_directory(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}
bool is_link(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0 && S_ISLNK(st.st_mode);
}

std::string temp_directory() {
  const char* path = std::getenv("TMPDIR");
  return path && *path ? path : "/tmp";
}

std::string user_cache_directory() {
  auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text ? text : "");
  };
  if (auto own = variable("TESSERA_CACHE_DIR"); !own.empty()) return own;
  if (auto xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/tessera";
  if (auto home = variable("HOME"); !home.empty()) return home + "/.cache/tessera";
  return {};
}

void touch(const std::string& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

std::string why_untrusted(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return std::string("cannot be examined (") + strerror(errno) + ")";
  if (st.st_uid != geteuid()) {
    return format("belongs to user %u, not to this one (%u)", static_cast<unsigned>(st.st_uid),
                  static_cast<unsigned>(geteuid()));
  }
  if (st.st_mode & (S_IWGRP | S_IWOTH)) {
    return format("can be written by others (mode %03o)", static_cast<unsigned>(st.st_mode & 07777));
  }
  return {};
}

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  DIR* folder = opendir(path.c_str());
  if (!folder) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

int64_t disk_usage(const std::string& path) {
  struct stat st {};
  if (lstat(path.c_str(), &st) != 0) return 0;
  if (!S_ISDIR(st.st_mode)) return st.st_size;
  int64_t bytes = 0;
  for (const std::string& name : list_directory(path)) bytes += disk_usage(path + '/' + name);
  return bytes;
}

std::optional<FileStamp> file_stamp(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return std::nullopt;
  return FileStamp{st.st_size, int64_t{st.st_mtim.tv_sec} * 1000000000 + st.st_mtim.tv_nsec};
}

}  // namespace tessera
