#include "tune/suite.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/fs.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kFolder = "suites/";
using Cells = std::vector<std::string>;

std::string gemm_text(const Cells& c) {
  return "layout=" + c[3] + " m=" + c[4] + " n=" + c[5] + " k=" + c[6];
}

// Columns come in threes, depth, height and width, of which the problem has the last `ndim`.
std::string conv_text(const Cells& c) {
  constexpr size_t kDims = 3, kIn = 8;
  const auto known = parse_int(c[kDims]);
  if (!known || *known < 1 || *known > 3)
    throw Error(ErrorCode::bad_input, "ndim is '" + c[kDims] + "', it must be 1, 2 or 3");
  const auto dims = static_cast<size_t>(*known);
  std::string text;
  for (size_t i = 4; i < kIn; ++i) text += std::string(1, "ngck"[i - 4]) + "=" + c[i] + " ";
  constexpr std::string_view kNames[] = {"in", "filter", "stride", "dilation", "pad"};
  for (size_t n = 0; n < std::size(kNames); ++n) {
    text += std::string(kNames[n]) + "=";
    for (size_t axis = 3 - dims; axis < 3; ++axis) {
      text += (axis > 3 - dims ? "x" : "") + c[kIn + 3 * n + axis];
    }
    text += ' ';
  }
  return text;
}

// One kind of suite: its columns, of which the first three are name, operation and type, and the words the
// others make.
struct SuiteForm {
  std::string_view header;
  std::string (*text)(const Cells&);
};

constexpr SuiteForm kForms[] = {
    {"name,op,dtype,layout,m,n,k", gemm_text},
    {"name,op,dtype,ndim,n,g,c,k,di,hi,wi,z,y,x,stride_d,stride_h,stride_w,dil_d,dil_h,dil_w,pad_d,pad_h,pad_"
     "w",
     conv_text},
};

}  // namespace

std::vector<SuiteRow> parse_suite(std::string_view text, std::string_view origin, const SuiteOptions& o) {
  std::vector<SuiteRow> rows;
  size_t line_number = 0, columns = 0;
  const SuiteForm* form = nullptr;
  const auto bad = [&](const std::string& why, const std::string& remedy = {}) -> Error {
    return Error(ErrorCode::bad_input, std::string(origin) + ":" + std::to_string(line_number) + ": " + why,
                 remedy);
  };
  for (std::string_view line : split(without_byte_order_mark(text), '\n')) {
    ++line_number;
    line = trim(line);
    if (line_number == 1) {
      form = std::find_if(std::begin(kForms), std::end(kForms),
                          [&](const SuiteForm& f) { return f.header == line; });
      if (form == std::end(kForms)) {
        throw bad("this is not the header of a suite",
                  "it reads " + std::string(kForms[0].header) + " or " + std::string(kForms[1].header));
      }
      columns = split(form->header, ',').size();
      continue;
    }
    if (line.empty()) continue;
    const std::optional<Cells> read = csv_cells(line);
    if (!read)
      throw bad("a quotation mark is not closed, or something follows it", "two of them stand for one");
    if (read->size() != columns) {
      throw bad(std::to_string(read->size()) + " cells instead of " + std::to_string(columns),
                "columns are " + std::string(form->header));
    }
    const Cells& cells = *read;
    if (!o.name.empty() && !glob_match(o.name, cells[0])) continue;
    try {
      std::string problem =
          cells[1] + " dtype=" + (o.dtype.empty() ? cells[2] : o.dtype) + ' ' + form->text(cells);
      if (!o.extra.empty()) problem += ' ' + o.extra;
      rows.push_back({cells[0], Problem::parse(problem)});
    } catch (const Error& e) { throw bad(e.what_happened(), e.what_to_do()); }
  }
  if (rows.empty()) {
    throw Error(ErrorCode::bad_input,
                std::string(origin) + " has no row" + (o.name.empty() ? "" : " named '" + o.name + "'"),
                o.name.empty() ? "" : "names may hold '*'; the first column lists them");
  }
  return rows;
}

namespace {

const EmbeddedFile* find_suite(const std::string& name) {
  const std::string path = std::string(kFolder) + name;
  const EmbeddedFile* file = find_embedded_file(path);
  return file ? file : find_embedded_file(path + ".csv");
}

}  // namespace

std::vector<SuiteRow> embedded_suite(const std::string& name, const SuiteOptions& o) {
  const EmbeddedFile* file = find_suite(name);
  if (!file) throw Error(ErrorCode::internal, "no suite '" + name + "' is part of this program");
  return parse_suite(file->text, file->path, o);
}

std::vector<SuiteRow> read_suite(const std::string& where, const SuiteOptions& o) {
  if (path_exists(where) && !path_exists(where + "/.")) return parse_suite(read_file(where), where, o);
  if (const EmbeddedFile* file = find_suite(where)) return parse_suite(file->text, file->path, o);
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
