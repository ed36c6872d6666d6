// Files as the caches need them: whole reads, durable writes, directories that appear or vanish in one step.
// Errors are Error(io) naming the path; functions marked quiet report nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Owns a file descriptor.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(other.release()) {}
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle();
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release();

 private:
  int fd_ = -1;
};

// A whole file, mapped read-only. Empty and valid for an empty file.
class MappedFile {
 public:
  static MappedFile open(const std::string& path);  // Error(io)
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile() = default;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Exclusive advisory lock on a file, created when missing. Only saves work: some network file systems grant
// it twice.
class FileLock {
 public:
  static FileLock try_lock(const std::string& path);  // false-y when another process or thread holds it
  explicit operator bool() const { return static_cast<bool>(file_); }
  void note(std::string_view text) const;  // in the file, for those who wait; quiet
  int error() const { return error_; }     // errno when the lock file cannot be used; 0 when merely held

 private:
  FileHandle file_;
  int error_ = 0;
};

// A new directory inside `parent` (which must exist), removed with its content at the end unless renamed.
class TempDir {
 public:
  explicit TempDir(const std::string& parent);  // Error(io)
  TempDir(TempDir&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TempDir& operator=(TempDir&&) = delete;
  ~TempDir();
  const std::string& path() const { return path_; }
  // Makes the directory `target`, which appears whole. False when `target` exists and is not empty: then
  // nothing changes. Error(io) otherwise. The files are as durable as they were written; the new name itself
  // may be lost with the power.
  bool rename_to(const std::string& target);

 private:
  std::string path_;
};

// Names of directories that TempDir makes tell host, namespace of processes, and process: true when that
// process is gone, or when the directory is older than an hour and of another host or namespace. False for
// any other name.
bool is_abandoned_temp_dir(const std::string& path);

std::optional<std::string> try_read_file(
    const std::string& path);                    // nullopt when it cannot be opened or read
std::string read_file(const std::string& path);  // a pipe too, to its end; Error(io)
// Whether all of it was written, which takes as many calls as it needs; else errno says why not.
bool write_all(int descriptor, std::string_view bytes);
// Existing content is replaced in place. durable: on the disk when the call returns.
void write_file(const std::string& path, std::string_view bytes, bool durable = false);
// Readers see the old content or the new, never a part. Devices and pipes are written in place; a link stays
// one, and the file it leads to is replaced. New files have the mode that the umask leaves, others keep
// theirs.
void write_file_whole(const std::string& path, std::string_view bytes, bool durable = true);
// Whether it is what the program prints to: then write_file_whole writes behind what was printed.
bool is_standard_output(const std::string& path);
// False, and nothing is written, where there is a file already: of several that create one, one does.
bool create_file_whole(const std::string& path, std::string_view bytes);
// The same as write_file_whole without a part that others could play: a link at `path` is replaced, not
// followed.
void replace_file(const std::string& path, std::string_view bytes);
// Error(io) where write_file_whole would fail, as far as can be seen: for asking before long work.
void check_writable(const std::string& path);

void make_directories(const std::string& path);  // mode 0700 for those it makes; Error(io)
void remove_all(const std::string& path);        // quiet: what cannot be removed stays
bool path_exists(const std::string& path);
bool is_directory(const std::string& path);
bool is_link(const std::string& path);  // a symbolic one
std::string temp_directory();           // TMPDIR or /tmp
// TESSERA_CACHE_DIR, else $XDG_CACHE_HOME/tessera, else ~/.cache/tessera; "" when none of them is set.
std::string user_cache_directory();
void touch(const std::string& path);  // quiet

// Why files in the directory (or the file) `path` may have been put there by somebody else: "" when it
// belongs to this user and only this user can write to it.
std::string why_untrusted(const std::string& path);

// Names in a directory, sorted; empty when it cannot be read.
std::vector<std::string> list_directory(const std::string& path);
// Bytes the files under `path` take, in their lengths.
int64_t disk_usage(const std::string& path);

struct FileStamp {
  int64_t size = 0;
  int64_t modified_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
std::optional<FileStamp> file_stamp(const std::string& path);

}  // namespace tessera
