// An append-only file of records that survives the death of its writer at any moment.
//
// A record is one line: length in bytes (8 hex digits), checksum (16 hex digits), the bytes, line feed. What
// does not add up is not a record: reading goes on at the next line that is one, so a torn tail or text that
// a child printed in between costs nothing but itself.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fs.h"

namespace tessera {

// The line of a record. `payload` holds no line feed.
std::string journal_line(std::string_view payload);

// The whole records in `text`, in order. `damaged`: lines that are none.
std::vector<std::string_view> journal_records(std::string_view text, size_t* damaged = nullptr);

class Journal {
 public:
  // Opens for appending, created when missing. A torn last record is ended by a line feed, so that the next
  // one stands alone. Error(io) when it cannot be written or another process holds it.
  explicit Journal(const std::string& path);

  const std::string& path() const { return path_; }

  // On the disk when the call returns. After a crash meanwhile the first few may be there, each whole.
  void append(const std::vector<std::string>& payloads);

 private:
  std::string path_;
  FileLock lock_;
  FileHandle file_;
};

}  // namespace tessera
