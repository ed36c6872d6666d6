#include "cli/output.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "cli/command.h"

namespace tessera::cli {
namespace {

bool looks_numeric(std::string_view cell) {
  return cell.empty() || cell == "-" || (cell[0] >= '0' && cell[0] <= '9') ||
         (cell.size() > 1 && cell[0] == '-' && cell[1] >= '0' && cell[1] <= '9');
}

}  // namespace

std::string Table::text() const {
  const size_t columns = header_.size();
  std::vector<size_t> width(columns);
  std::vector<bool> right(columns, true);
  for (size_t c = 0; c < columns; ++c) {
    width[c] = header_[c].size();
    for (const auto& row : rows_) {
      width[c] = std::max(width[c], row[c].size());
      if (!looks_numeric(row[c])) right[c] = false;
    }
  }
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t c = 0; c < columns; ++c) {
      const std::string gap(width[c] - cells[c].size(), ' ');
      text += (c ? "  " : "") + (right[c] ? gap + cells[c] : cells[c] + gap);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  line(header_);
  for (const auto& row : rows_) line(row);
  return out;
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
}

void print_json(const Json& json) { print(json.dump(2)); }

int say_failed(const std::string& what, const std::string& command) {
  std::fprintf(stderr, "error: %s\nreproduce: %s\n", printable(what).c_str(), printable(command).c_str());
  return kFailed;
}

std::exception_ptr failure_of(const std::function<void()>& write) {
  try {
    write();
  } catch (...) { return std::current_exception(); }
  return nullptr;
}

std::string us_text(double us) {
  if (us < 1) return format("%.0f ns", us * 1e3);
  if (us < 1e3) return format("%.3g us", us);
  if (us < 1e6) return format("%.3g ms", us / 1e3);
  return format("%.3g s", us / 1e6);
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t u = 0;
  while (bytes >= 1024 && u + 1 < std::size(units)) {
    bytes /= 1024;
    ++u;
  }
  return u == 0 ? format("%.0f B", bytes) : format("%.1f %s", bytes, units[u]);
}

}  // namespace tessera::cli
