#include "tune/suite.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/fs.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kFolder = "suites/";
constexpr std::string_view kColumns[] = {"name", "op", "dtype", "layout", "m", "n", "k"};

std::string header_text() {
  std::string text;
  for (std::string_view c : kColumns) text += (text.empty() ? "" : ",") + std::string(c);
  return text;
}

}  // namespace

std::vector<SuiteRow> parse_suite(std::string_view text, std::string_view origin, const SuiteOptions& o) {
  std::vector<SuiteRow> rows;
  size_t line_number = 0;
  const auto bad = [&](const std::string& why, const std::string& remedy = {}) -> Error {
    return Error(ErrorCode::bad_input, std::string(origin) + ":" + std::to_string(line_number) + ": " + why,
                 remedy);
  };
  for (std::string_view line : split(text, '\n')) {
    ++line_number;
    line = trim(line);
    if (line_number == 1) {
      if (line != header_text())
        throw bad("this is not the header of a GEMM suite", "it reads " + header_text());
      continue;
    }
    if (line.empty()) continue;
    const auto cells = split(line, ',');
    if (cells.size() != std::size(kColumns)) {
      throw bad(std::to_string(cells.size()) + " cells instead of " + std::to_string(std::size(kColumns)),
                "columns are " + header_text());
    }
    if (!o.name.empty() && !glob_match(o.name, cells[0])) continue;
    std::string problem(cells[1]);
    for (size_t i = 2; i < cells.size(); ++i) {
      const std::string value = kColumns[i] == "dtype" && !o.dtype.empty() ? o.dtype : std::string(cells[i]);
      problem += ' ' + std::string(kColumns[i]) + '=' + value;
    }
    if (!o.extra.empty()) problem += ' ' + o.extra;
    try {
      rows.push_back({std::string(cells[0]), Problem::parse(problem)});
    } catch (const Error& e) { throw bad(e.what_happened(), e.what_to_do()); }
  }
  if (rows.empty()) {
    throw Error(ErrorCode::bad_input,
                std::string(origin) + " has no row" + (o.name.empty() ? "" : " named '" + o.name + "'"),
                o.name.empty() ? "" : "names may hold '*'; the first column lists them");
  }
  return rows;
}

std::vector<SuiteRow> read_suite(const std::string& where, const SuiteOptions& o) {
  if (auto text = try_read_file(where)) return parse_suite(*text, where, o);
  const std::string path = std::string(kFolder) + where;
  for (const std::string& candidate : {path, path + ".csv"}) {
    if (const EmbeddedFile* file = find_embedded_file(candidate))
      return parse_suite(file->text, candidate, o);
  }
  throw Error(ErrorCode::io, "no suite '" + where + "': neither a readable file nor an embedded suite",
              "embedded: " + join(suite_names(), " "));
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& f : embedded_files()) {
    if (f.path.starts_with(kFolder)) names.emplace_back(f.path.substr(kFolder.size()));
  }
  return names;
}

}  // namespace tessera
