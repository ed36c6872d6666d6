// A verb of the command line: one row, from which parsing, help, completion and suggestions follow.
#pragma once

#include <span>
#include <string>
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
  set,
  variant,
  device,
  stage,
  outcome,
  fold,
  strategy
};

struct Option {
  std::string_view name;         // "--top"
  std::string_view placeholder;  // of its value, "N"; "" for a flag
  std::string_view help;
  Complete complete = Complete::nothing;
  bool many = false;           // may be given several times
  std::string_view only = {};  // the actions that take it, separated by spaces; "" for all
};

constexpr Option many(Option o) {
  o.many = true;
  return o;
}
constexpr Option of(std::string_view actions, Option o) {
  o.only = actions;
  return o;
}

// Options that several verbs have, by what they are about. A verb or action says which of them it uses, and
// refuses the others.
enum Use : unsigned {
  kDevice = 1,
  kThreads = 2,
  kChoice = 4,  // --policy --config --top-k --registry
  kModel = 8,
  kCache = 16,
  kDatabase = 32,
  kPacks = 64,
  kJson = 128,
  kDispatcher = kDevice | kThreads | kChoice | kModel | kCache | kDatabase | kPacks | kJson
};

struct SharedOption {
  unsigned use;  // 0: every verb takes it
  Option option;
};

struct Command;

// `cache stats`, `arch list`: what follows the verb.
struct Action {
  std::string_view name;
  std::string_view words;  // further arguments, "FILE..."
  std::string_view help;
  int (*run)(const Invocation&);
  unsigned uses = kJson;
  bool hidden = false;  // of the program's own use
};

struct Command {
  std::string_view name;
  std::string_view words;  // positional arguments, "PROBLEM"; "" for none. With actions: theirs
  std::string_view summary;
  std::span<const Option> options;
  int (*run)(const Invocation&);  // null when there are actions
  unsigned uses = kJson;          // with actions: each says it
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
std::span<const SharedOption> shared_options();
// The command's own option or a shared one, of whatever verb; null when there is none of that name.
const Option* find_option(const Command& command, std::string_view name);
// Whether the command, or this action of it, takes the option.
bool takes(const Command& command, const Action* action, std::string_view option);
// Names of the actions that take it, when not all do: "plan run"; "" otherwise.
std::string takers(const Command& command, std::string_view option);
const Command* find_command(std::string_view name);

// Exit statuses, beside interrupted_status().
inline constexpr int kOk = 0, kFailed = 1, kUsage = 2;

}  // namespace tessera::cli
