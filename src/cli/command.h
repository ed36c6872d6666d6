// A verb of the command line: one row, from which parsing, help, completion and suggestions follow.
#pragma once

#include <span>
#include <string_view>

namespace tessera::cli {

class Invocation;

// What to complete a value with.
enum class Complete : int {
  nothing,
  file,
  directory,
  problem,
  arch,
  dtype,
  layout,
  policy,
  suite,
  shell,
  command,
  peer,
  set
};

struct Option {
  std::string_view name;         // "--top"
  std::string_view placeholder;  // of its value, "N"; "" for a flag
  std::string_view help;
  Complete complete = Complete::nothing;
};

struct Command;

// `cache stats`, `arch list`: what follows the verb.
struct Action {
  std::string_view name;
  std::string_view words;  // further arguments, "FILE..."
  std::string_view help;
  int (*run)(const Invocation&);
  bool hidden = false;  // of the program's own use
};

struct Command {
  std::string_view name;
  std::string_view words;  // positional arguments, "PROBLEM"; "" for none. With actions: theirs
  std::string_view summary;
  std::span<const Option> options;
  int (*run)(const Invocation&);  // null when there are actions
  std::span<const Action> actions{};
  Complete complete = Complete::nothing;  // of the words
  bool hidden = false;
};

// The table. Each verb is defined in src/cli/<verb>.cpp as <verb>_command; help shows them in this order.
#define TESSERA_COMMANDS(X) \
  X(run)                    \
  X(explain)                \
  X(emit)                   \
  X(generate)               \
  X(arch)                   \
  X(build)                  \
  X(cache)                  \
  X(pack)                   \
  X(bench)                  \
  X(sweep) X(tune) X(search) X(db) X(train) X(evaluate) X(registry) X(doctor) X(completion) X(help) X(version)

#define TESSERA_DECLARE(name) extern const Command name##_command;
TESSERA_COMMANDS(TESSERA_DECLARE)
#undef TESSERA_DECLARE

std::span<const Command* const> commands();
std::span<const Option> global_options();
const Command* find_command(std::string_view name);

// Exit statuses, beside interrupted_status().
inline constexpr int kOk = 0, kFailed = 1, kUsage = 2;

}  // namespace tessera::cli
