// Tables and lines on stdout; failures on stderr.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/json.h"

namespace tessera::cli {

// Columns as wide as they need be, numbers to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::string text() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

void print(std::string_view text);  // and a line feed, unless it ends with one
void print_json(const Json& json);  // indented
// "error: WHAT" and "reproduce: COMMAND" on stderr. Returns kFailed.
int say_failed(const std::string& what, const std::string& command);
// What `write` throws, to be thrown again once the results are printed: they are worth more than their file.
std::exception_ptr failure_of(const std::function<void()>& write);
std::string us_text(double us);        // "12.3 us", "4.56 ms"
std::string bytes_text(double bytes);  // "1.5 MiB"

}  // namespace tessera::cli
