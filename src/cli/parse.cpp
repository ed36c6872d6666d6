// Words of the command line -> Invocation, by the table of verbs.
#include <CLI/CLI.hpp>

#include <algorithm>

#include "backend/backend.h"
#include "cli/invocation.h"
#include "core/arch_spec.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

const Option* find_option(std::span<const Option> options, std::string_view name) {
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
  return found == options.end() ? nullptr : &*found;
}

// Index of the verb: the first word that is neither a global option nor its value.
size_t verb_index(const std::vector<std::string>& argv) {
  size_t i = 0;
  while (i < argv.size() && argv[i].starts_with("-") && argv[i].size() > 1) {
    const Option* option = find_option(global_options(), argv[i]);
    i += option && !option->placeholder.empty() ? 2 : 1;
  }
  return std::min(i, argv.size());
}

std::vector<std::string> option_names(const Command& c) {
  std::vector<std::string> names;
  for (const Option& o : c.options) names.emplace_back(o.name);
  for (const Option& o : global_options()) names.emplace_back(o.name);
  return names;
}

// Options of the command and the global ones into `out`; returns the positional words.
std::vector<std::string> parse_options(const Command& command, std::vector<std::string> args,
                                       Invocation& out) {
  CLI::App app;
  app.set_help_flag("");
  app.allow_extras();
  std::map<std::string, std::vector<std::string>> given;
  std::map<std::string, bool> flags;
  const auto declare = [&](const Option& o) {
    const std::string name(o.name);
    if (o.placeholder.empty()) {
      app.add_flag(name == "--help" ? "-h,--help" : name, flags[name]);
    } else {
      app.add_option(name, given[name])->expected(1)->take_all()->allow_extra_args(false);
    }
  };
  for (const Option& o : command.options) declare(o);
  for (const Option& o : global_options()) {
    if (!find_option(command.options, o.name)) declare(o);
  }
  std::reverse(args.begin(), args.end());
  try {
    app.parse(args);
  } catch (const CLI::ParseError& e) { throw UsageError(e.what()); }
  for (const auto& [name, texts] : given) {
    if (!texts.empty()) out.values[name] = texts;
  }
  for (const auto& [name, set] : flags) {
    if (set) out.values[name] = {""};
  }
  std::vector<std::string> words;
  for (const std::string& word : app.remaining()) {
    if (word.starts_with("-") && word.size() > 1) {
      const std::string name = word.substr(0, word.find('='));
      throw UsageError("unknown option '" + name + "'" + did_you_mean(name, option_names(command)));
    }
    if (word != "--") words.push_back(word);
  }
  return words;
}

}  // namespace

Invocation parse_command_line(const std::vector<std::string>& argv) {
  Invocation out;
  out.argv = argv;
  const size_t verb = verb_index(argv);
  std::vector<std::string> args = argv;
  std::string name = "help";
  if (verb < argv.size()) {
    name = argv[verb];
    args.erase(args.begin() + static_cast<ptrdiff_t>(verb));
  } else if (std::find(argv.begin(), argv.end(), "--version") != argv.end()) {
    out.command = find_command("version");
    return out;
  }
  out.command = find_command(name);
  if (!out.command) {
    std::vector<std::string> names;
    for (const Command* c : commands()) names.emplace_back(c->name);
    throw UsageError("unknown command '" + name + "'" + did_you_mean(name, names));
  }
  out.words = parse_options(*out.command, std::move(args), out);
  if (out.has("--help")) return out;
  if (!out.command->actions.empty()) {
    std::vector<std::string> names;
    for (const Action& a : out.command->actions) names.emplace_back(a.name);
    if (out.words.empty())
      throw UsageError("'" + name + "' needs one of: " + [&] {
        std::string text;
        for (const std::string& n : names) text += (text.empty() ? "" : " ") + n;
        return text;
      }());
    for (const Action& a : out.command->actions) {
      if (a.name == out.words[0]) out.action = &a;
    }
    if (!out.action) {
      throw UsageError("'" + name + "' has no '" + out.words[0] + "'" + did_you_mean(out.words[0], names));
    }
    out.words.erase(out.words.begin());
  }
  return out;
}

void check_names(const Invocation& call) {
  try {
    if (call.has("--device")) check_device(call.value("--device"));
    const Option* arch = find_option(call.command->options, "--arch");
    if (!arch || arch->placeholder != "ARCH" || !call.has("--arch")) return;
    const std::string name = call.value("--arch");
    name.starts_with("null:") ? check_device(name) : static_cast<void>(find_arch(name));
  } catch (const Error& e) { throw UsageError(e.what()); }
}

}  // namespace tessera::cli
