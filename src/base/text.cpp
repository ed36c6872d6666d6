#include "base/text.h"

#include <locale.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <numeric>
#include <utility>

namespace tessera {
namespace {

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  if (!text.empty() && text.front() == '+') return std::nullopt;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

template <class T>
std::optional<T> finite(std::optional<T> v) {
  return v && std::isfinite(*v) ? v : std::nullopt;
}

template <class T>
std::string shortest(T v) {
  char buffer[64];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, v);
  return std::string(buffer, result.ptr);
}

bool alike(char a, char b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; };
  return lower(a) == lower(b);
}

// Letters to add, leave out, replace or exchange with the next one; of either case.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + !alike(a[i - 1], b[j - 1])});
      if (i > 1 && j > 1 && alike(a[i - 1], b[j - 2]) && alike(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

constexpr std::string_view kSpace = " \t\r\n";

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  // Of one letter any other one would be the nearest.
  size_t best_distance = std::min(std::max<size_t>(1, word.size() / 3) + 1, word.size());
  for (const std::string& candidate : known) {
    size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0;;) {
    size_t end = text.find(separator, begin);
    pieces.push_back(text.substr(begin, end == text.npos ? text.npos : end - begin));
    if (end == text.npos) return pieces;
    begin = end + 1;
  }
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kSpace); begin != text.npos;) {
    size_t end = text.find_first_of(kSpace, begin);
    words.push_back(text.substr(begin, end == text.npos ? text.npos : end - begin));
    begin = end == text.npos ? end : text.find_first_not_of(kSpace, end);
  }
  return words;
}

std::string_view trim(std::string_view text) {
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::optional<int64_t> parse_int(std::string_view text) { return parse_whole<int64_t>(text); }
std::optional<double> parse_number(std::string_view text) { return finite(parse_whole<double>(text)); }
std::optional<float> parse_float(std::string_view text) { return finite(parse_whole<float>(text)); }

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool control = (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == 0x7f;
    out += control ? format("\\x%02x", c) : std::string(1, c);
  }
  return out;
}

std::string number_text(double v) { return shortest(v); }
std::string number_text(float v) { return shortest(v); }

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\n") == text.npos) return std::string(text);
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::optional<std::vector<std::string>> csv_cells(std::string_view line) {
  std::vector<std::string> cells;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    std::string cell;
    if (line.starts_with('"')) {
      for (line.remove_prefix(1);; line.remove_prefix(1)) {
        if (line.empty()) return std::nullopt;
        if (line[0] == '"') {
          line.remove_prefix(1);
          if (!line.starts_with('"')) break;  // two stand for one
        }
        cell += line[0];
      }
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      if (!line.empty() && line[0] != ',') return std::nullopt;
    } else {
      cell = trim(line.substr(0, line.find(',')));
      line.remove_prefix(std::min(line.find(','), line.size()));
    }
    cells.push_back(std::move(cell));
    if (line.empty()) return cells;
    line.remove_prefix(1);
  }
}

std::string format(const char* fmt, ...) {
  // Files are read on other machines, so a number has a point whatever the locale of the program around us.
  static const locale_t c = newlocale(LC_ALL_MASK, "C", nullptr);
  struct Locale {
    locale_t callers;
    ~Locale() { uselocale(callers); }
  } const restored{uselocale(c)};
  va_list args;
  va_start(args, fmt);
  va_list again;
  va_copy(again, args);
  int length = std::vsnprintf(nullptr, 0, fmt, args);
  va_end(args);
  std::string out(static_cast<size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(out.data(), out.size() + 1, fmt, again);
  va_end(again);
  return out;
}

std::string typing_hint(std::string_view word, const std::vector<std::string>& known,
                        std::string_view suffix) {
  const std::string name = nearest(word, known);
  return name.empty() ? "" : "did you mean '" + name + std::string(suffix) + "'?";
}

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace tessera
