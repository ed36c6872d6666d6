// Parsing and printing of small pieces of text. Parsers accept the whole text or refuse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

std::vector<std::string_view> split(std::string_view text, char separator);  // "" gives one empty piece
std::vector<std::string_view> split_words(std::string_view text);  // by white space, no empty pieces
std::string_view trim(std::string_view text);
std::string_view without_byte_order_mark(std::string_view text);  // which spreadsheets write before UTF-8
// With "\x1b" for each control character but tabs and line feeds: a terminal would obey them.
std::string printable(std::string_view text);
template <class Pieces = std::vector<std::string>>  // a range of strings or views
std::string join(const Pieces& pieces, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& piece : pieces) {
    if (!first) out += separator;
    out += piece;
    first = false;
  }
  return out;
}

std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_number(std::string_view text);  // finite only
std::optional<float> parse_float(std::string_view text);    // finite only

// The shortest text that parses back to the same value.
std::string number_text(double v);
std::string number_text(float v);

// As a cell of a CSV file: quoted where it has to be.
std::string csv_cell(std::string_view text);
// The cells of a line, without blanks around those that are not quoted; nullopt where a quote is not closed,
// or something follows a closed one.
std::optional<std::vector<std::string>> csv_cells(std::string_view line);

// printf-style. A number has a point in every locale.
std::string format(const char* fmt, ...) __attribute__((format(printf, 1, 2)));

// "did you mean 'NAME'?", `suffix` after the name: that of `known` which is nearest to `word` by edit
// distance, if it is close enough to be a typing slip; else "".
std::string typing_hint(std::string_view word, const std::vector<std::string>& known,
                        std::string_view suffix = {});

// '*' matches any run of characters, '?' one.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace tessera
