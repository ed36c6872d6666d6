// Words of the command line -> Invocation, by the table of verbs.
#include <CLI/CLI.hpp>

#include <algorithm>

#include "backend/backend.h"
#include "base/text.h"
#include "cli/invocation.h"
#include "core/arch_spec.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

// Index of the verb: the first word that is neither a shared option nor its value.
size_t verb_index(const std::vector<std::string>& argv) {
  const auto has_value = [](const std::string& word) {
    return std::ranges::any_of(shared_options(), [&](const SharedOption& s) {
      return s.option.name == word && !s.option.placeholder.empty();
    });
  };
  size_t i = 0;
  while (i < argv.size() && argv[i].starts_with("-") && argv[i].size() > 1) i += has_value(argv[i]) ? 2 : 1;
  return std::min(i, argv.size());
}

std::vector<Option> all_options(const Command& c) {
  std::vector<Option> all(c.options.begin(), c.options.end());
  for (const SharedOption& s : shared_options()) {
    if (find_option(c, s.option.name) == &s.option) all.push_back(s.option);
  }
  return all;
}

// What CLI11 complains about: an option without its value, or a flag with one.
UsageError complaint(const Command& c, const CLI::ParseError& e) {
  const std::string text = e.what();
  std::string name = text.substr(0, text.find_first_of(": "));
  if (!name.starts_with("--")) name = "--" + name;
  const Option* o = find_option(c, name);
  if (!o || !dynamic_cast<const CLI::ArgumentMismatch*>(&e)) return UsageError(text);
  return UsageError(name + (o->placeholder.empty() ? " takes no value" : " needs a value"));
}

// All options into `out`; returns the positional words.
std::vector<std::string> parse_options(const Command& command, std::vector<std::string> args,
                                       Invocation& out) {
  CLI::App app;
  app.set_help_flag("");
  app.allow_extras();
  std::map<std::string, std::vector<std::string>> given;
  std::map<std::string, bool> flags;
  std::vector<std::string> names;
  for (const Option& o : all_options(command)) {
    const std::string& name = names.emplace_back(o.name);
    if (o.placeholder.empty()) {
      app.add_flag(name == "--help" ? "-h,--help" : name, flags[name])->disable_flag_override();
    } else {
      app.add_option(name, given[name])->expected(1)->take_all()->allow_extra_args(false);
    }
  }
  const auto end = std::find(args.begin(), args.end(), "--");  // of the options
  std::vector<std::string> plain(end == args.end() ? end : end + 1, args.end());
  args.erase(end, args.end());
  std::reverse(args.begin(), args.end());
  try {
    app.parse(args);
  } catch (const CLI::ParseError& e) { throw complaint(command, e); }
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
      throw UsageError("unknown option '" + name + "'" + did_you_mean(name, names));
    }
    words.push_back(word);
  }
  words.insert(words.end(), plain.begin(), plain.end());
  return words;
}

void choose_action(Invocation& call) {
  const std::string verb(call.command->name);
  std::vector<std::string> names;
  for (const Action& a : call.command->actions) {
    if (!a.hidden) names.emplace_back(a.name);
  }
  if (call.words.empty()) throw UsageError("'" + verb + "' needs one of: " + join(names, " "));
  for (const Action& a : call.command->actions) {
    if (a.name == call.words[0]) call.action = &a;
  }
  if (!call.action)
    throw UsageError("'" + verb + "' has no '" + call.words[0] + "'" + did_you_mean(call.words[0], names));
  call.words.erase(call.words.begin());
}

// What is given is used, has a value and contradicts nothing given before.
void check_options(const Invocation& call) {
  for (const auto& [name, texts] : call.values) {
    const Option& o = *find_option(*call.command, name);
    if (!takes(*call.command, call.action, name)) {
      const std::string other = takers(*call.command, name);
      throw UsageError("'" + std::string(call.command->name) +
                       (call.action ? " " + std::string(call.action->name) : "") + "' does not take " + name +
                       (other.empty() ? "" : ", only: " + other));
    }
    if (o.placeholder.empty()) continue;
    for (const std::string& text : texts) {
      if (trim(text).empty()) throw UsageError(name + " needs a value; '' is none");
    }
    if (!o.many && texts.size() > 1)
      throw UsageError(
          format("%s is given twice, '%s' and '%s'", name.c_str(), texts[0].c_str(), texts[1].c_str()));
  }
}

}  // namespace

void parse_command_line(Invocation& call) {
  const std::vector<std::string>& argv = call.argv;
  const size_t verb = verb_index(argv);
  std::vector<std::string> args = argv;
  std::string name = "help";
  if (verb < argv.size()) {
    name = argv[verb];
    args.erase(args.begin() + static_cast<ptrdiff_t>(verb));
  } else if (std::find(argv.begin(), argv.end(), "--version") != argv.end()) {
    name = "version";
    std::erase(args, "--version");
  } else {  // the help asked for is that of the program, which is what help prints
    std::erase_if(args, [](const std::string& word) { return word == "--help" || word == "-h"; });
  }
  call.command = find_command(name);
  if (!call.command) {
    std::vector<std::string> names;
    for (const Command* c : commands()) names.emplace_back(c->name);
    throw UsageError("unknown command '" + name + "'" + did_you_mean(name, names));
  }
  call.words = parse_options(*call.command, std::move(args), call);
  if (call.has("--help")) {
    if (call.json()) throw UsageError("--help does not take --json, it is text");
    return;
  }
  if (!call.command->actions.empty()) choose_action(call);
  check_options(call);
}

void check_names(const Invocation& call) {
  try {
    if (call.has("--device")) check_device(call.value("--device"));
    if (call.has("--operation")) parse_op(call.value("--operation"));
    const Option* arch = find_option(*call.command, "--arch");
    if (!arch || arch->placeholder != "ARCH" || !call.has("--arch")) return;
    const std::string name = call.value("--arch");
    only_plans(name) ? check_device(name) : static_cast<void>(find_arch(name));
  } catch (const Error& e) { throw UsageError(e.what()); }
}

}  // namespace tessera::cli
