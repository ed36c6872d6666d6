#include "codegen/closure.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/embedded.h"
#include "base/hash.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kRoot = "kernels/";

// The name between the quotes of an #include "..." line; "" for any other line.
std::string_view included_name(std::string_view line) {
  line = trim(line);
  if (line.empty() || line[0] != '#') return {};
  line = trim(line.substr(1));
  constexpr std::string_view kWord = "include";
  if (line.substr(0, kWord.size()) != kWord) return {};
  line = trim(line.substr(kWord.size()));
  const size_t end = line.empty() || line[0] != '"' ? line.npos : line.find('"', 1);
  return end == line.npos ? std::string_view() : line.substr(1, end - 1);
}

bool is_pragma_once(std::string_view line) {
  auto words = split_words(line);
  return words.size() == 2 && words[0] == "#pragma" && words[1] == "once";
}

const EmbeddedFile& find_header(std::string_view name, std::string_view includer) {
  const std::string beside(includer.substr(0, includer.find_last_of('/') + 1));
  for (const std::string& folder : {std::string(kRoot), beside}) {
    if (const EmbeddedFile* file = find_embedded_file(folder + std::string(name))) return *file;
  }
  throw Error(ErrorCode::internal, "kernel header '" + std::string(name) + "', included by '" +
                                       std::string(includer) + "', is not in this binary");
}

void append(const EmbeddedFile& file, std::set<std::string_view>& seen, std::string& out) {
  if (!seen.insert(file.path).second) return;
  auto mark = [&](size_t line) {
    out += "#line " + std::to_string(line) + " \"" + std::string(file.path) + "\"\n";
  };
  mark(1);
  size_t number = 0;
  std::string_view rest = file.text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    const std::string_view name = included_name(line);
    if (!name.empty()) {
      append(find_header(name, file.path), seen, out);
      mark(number + 1);
    } else {
      if (!is_pragma_once(line)) out += line;
      out += '\n';
    }
  }
}

struct Stored {
  std::string text, hash;
};

}  // namespace

Closure include_closure(std::string_view header) {
  static std::mutex mutex;
  // Nodes stay where they are, while the process ends too: threads may still be at work.
  static auto& stored = *new std::map<std::string, Stored, std::less<>>;
  std::lock_guard lock(mutex);
  auto found = stored.find(header);
  if (found == stored.end()) {
    Stored fresh;
    std::set<std::string_view> seen;
    append(find_header(header, kRoot), seen, fresh.text);
    fresh.hash = content_hash(fresh.text);
    found = stored.emplace(header, std::move(fresh)).first;
  }
  return {found->second.text, found->second.hash};
}

}  // namespace tessera
