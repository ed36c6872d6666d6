#include "tune/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr size_t kLength = 8, kChecksum = 16, kFrame = kLength + kChecksum;

std::string checksum(std::string_view payload) { return content_hash(payload).substr(0, kChecksum); }

Error failed(const std::string& what, const std::string& path) {
  return Error(ErrorCode::io, what + " '" + path + "': " + strerror(errno),
               "free space, or name a directory that can be written");
}

// All of it or, of a file that nobody else writes, nothing: half a line would spoil the next one.
void append_all(int fd, std::string_view bytes, const std::string& path) {
  const off_t before = lseek(fd, 0, SEEK_END);
  if (write_all(fd, bytes)) return;
  const Error error = failed("cannot append to", path);
  if (before >= 0 && ftruncate(fd, before) != 0) log(LogLevel::debug, "a line of '" + path + "' is torn");
  throw error;
}

}  // namespace

std::string journal_line(std::string_view payload) {
  return format("%08zx", payload.size()) + checksum(payload) + std::string(payload) + '\n';
}

std::vector<std::string_view> journal_records(std::string_view text, size_t* damaged) {
  std::vector<std::string_view> out;
  size_t bad = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const bool whole = end != text.npos && line.size() >= kFrame &&
                       line.substr(0, kLength) == format("%08zx", line.size() - kFrame) &&
                       line.substr(kLength, kChecksum) == checksum(line.substr(kFrame));
    if (whole) {
      out.push_back(line.substr(kFrame));
    } else if (!line.empty()) {
      ++bad;
    }
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  if (damaged) *damaged = bad;
  return out;
}

Journal::Journal(const std::string& path) : path_(path), lock_(FileLock::try_lock(path + ".lock")) {
  if (!lock_ && !lock_.error()) {
    throw Error(ErrorCode::io, "'" + path + "' is being written by another process",
                "wait for it, or give each process a shard of its own");
  }
  file_ = FileHandle(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file_) throw failed("cannot open", path);
  const off_t size = lseek(file_.get(), 0, SEEK_END);
  char last = '\n';
  if (size > 0 && pread(file_.get(), &last, 1, size - 1) == 1 && last != '\n')
    append_all(file_.get(), "\n", path);
}

void Journal::append(const std::vector<std::string>& payloads) {
  std::string text;
  for (const std::string& payload : payloads) text += journal_line(payload);
  append_all(file_.get(), text, path_);
  if (fdatasync(file_.get()) != 0 && errno != EINVAL) throw failed("cannot append to", path_);
}

}  // namespace tessera
