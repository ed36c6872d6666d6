#include "cli/problems.h"

#include <algorithm>

#include "base/fs.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

// "m=8", and no path that happens to have an equals sign.
bool is_field(std::string_view word) {
  const size_t equals = word.find('=');
  return equals != std::string_view::npos && word.find('/') > equals;
}

// "gemm" or "conv_fwd", or "gemm m=..." in one word. An operation that is misspelt shows by its fields.
bool starts_problem(std::string_view word) {
  const auto words = split_words(word);
  if (words.empty() || is_op(words[0])) return !words.empty();
  return words.size() > 1 && !is_field(words[0]) && is_field(words[1]) && !path_exists(std::string(word));
}

bool is_suite(std::string_view word) { return !starts_problem(word) && word.ends_with(".csv"); }

void append(std::vector<SuiteRow>& to, std::vector<SuiteRow> rows) {
  to.insert(to.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
}

}  // namespace

std::vector<SuiteRow> parse_problem_list(std::string_view text, std::string_view origin) {
  std::vector<SuiteRow> rows;
  size_t number = 0;
  for (std::string_view line : split(without_byte_order_mark(text), '\n')) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::string name = std::string(origin) + ":" + std::to_string(number);
    try {
      rows.push_back({name, Problem::parse(line)});
    } catch (const Error& e) { throw e.on(name); }
  }
  if (rows.empty()) throw Error(ErrorCode::bad_input, std::string(origin) + " holds no problem");
  return rows;
}

bool reads_suite(const Invocation& call) {
  return call.has("--suite") ||
         std::ranges::any_of(call.words, [](const std::string& word) { return is_suite(word); });
}

std::vector<SuiteRow> problems_of(const Invocation& call) {
  std::vector<SuiteRow> rows;
  const SuiteOptions suite_options{.dtype = call.value("--dtype"), .extra = "", .name = call.value("--name")};
  for (const std::string& suite : call.each("--suite")) append(rows, suite_rows(suite, suite_options));
  if (!reads_suite(call)) call.refuse_row_selection();
  for (size_t i = 0; i < call.words.size();) {
    const std::string& word = call.words[i++];
    const bool fields_follow =
        i < call.words.size() && is_field(call.words[i]) && !starts_problem(call.words[i]);
    if (starts_problem(word) || (fields_follow && !path_exists(word))) {
      std::string text = word;  // and the unquoted words that follow
      while (i < call.words.size() && !starts_problem(call.words[i]) &&
             call.words[i].find('=') != std::string::npos) {
        text += ' ' + call.words[i++];
      }
      try {
        rows.push_back({text, Problem::parse(text)});
      } catch (const Error& e) { throw UsageError(e.what()); }
    } else if (is_suite(word)) {
      append(rows, suite_rows(word, suite_options));
    } else {
      append(rows, parse_problem_list(read_file(word), word));
    }
  }
  if (rows.empty()) throw UsageError("no problem is given: a problem's text, a file of problems or a suite");
  return rows;
}

}  // namespace tessera::cli
