#include <algorithm>

#include "base/fs.h"
#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "core/arch_spec.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

std::string family_names(const ArchSpec& a) {
  std::vector<std::string> names;
  for (Family f : a.families) names.emplace_back(to_string(f));
  return join(names, " ");
}

// The running CPU's architecture, "" where none fits.
std::string detected_name() {
  try {
    return detect_cpu().name;
  } catch (const Error&) { return ""; }
}

int list(const Invocation& call) {
  call.no_more_words(0);
  const std::string here = detected_name();
  Json rows = Json::array();
  Table table({"name", "backend", "here", "kernel families", "description"});
  for (const ArchSpec& a : all_archs()) {
    rows.push(Json::object({{"name", a.name},
                            {"backend", to_string(a.backend)},
                            {"description", a.description},
                            {"detected", a.name == here}}));
    table.add({a.name, std::string(to_string(a.backend)), a.name == here ? "yes" : "", family_names(a),
               a.description});
  }
  if (call.json()) {
    print_json(rows);
  } else {
    print(table.text());
  }
  return kOk;
}

int show(const Invocation& call) {
  const std::string name = call.word(0, "the architecture");
  call.no_more_words(1);
  try {
    print_json(to_json(find_arch(name)));
  } catch (const Error& e) { throw UsageError(e.what()); }
  return kOk;
}

int check(const Invocation& call) {
  if (call.words.empty()) throw UsageError("the file is missing");
  Json rows = Json::array();
  bool good = true;
  for (const std::string& path : call.words) {
    try {
      const ArchSpec a = parse_arch(read_file(path), path);
      rows.push(Json::object({{"file", path}, {"name", a.name}, {"valid", true}}));
      if (!call.json()) print(path + ": valid, architecture " + a.name);
    } catch (const Error& e) {
      good = false;
      rows.push(Json::object({{"file", path}, {"valid", false}, {"error", e.what()}}));
      say_failed(e.what(), "tessera arch check " + shell_quote(path));
    }
  }
  if (call.json()) print_json(rows);
  return good ? kOk : kFailed;
}

constexpr Action kActions[] = {
    {"list", "", "the known architectures; 'here' marks this machine's", list},
    {"show", "ARCH", "everything known about one, as JSON", show},
    {"check", "FILE...", "whether an architecture file is valid", check},
};

}  // namespace

const Command arch_command{.name = "arch",
                           .words = "[ARCH|FILE]",
                           .summary = "architectures: list, show, check",
                           .options = {},
                           .run = nullptr,
                           .actions = kActions,
                           .complete = Complete::arch};

}  // namespace tessera::cli
