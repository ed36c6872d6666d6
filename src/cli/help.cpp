#include "cli/help.h"

#include <algorithm>

#include "cli/invocation.h"
#include "cli/output.h"

namespace tessera::cli {
namespace {

std::string padded(std::string_view text, size_t width) {
  return std::string(text) + std::string(text.size() < width ? width - text.size() : 1, ' ');
}

std::string option_line(const Command& c, const Option& o) {
  const std::string left =
      std::string(o.name) + (o.placeholder.empty() ? "" : " " + std::string(o.placeholder));
  const std::string actions = takers(c, o.name);
  return "  " + padded(left, 22) + ' ' + (actions.empty() ? "" : actions + ": ") + std::string(o.help) + '\n';
}

int run(const Invocation& call) {
  if (call.words.empty()) {
    print(overview());
    return kOk;
  }
  const Command* c = find_command(call.words[0]);
  if (!c) {
    std::vector<std::string> names;
    for (const Command* known : commands()) names.emplace_back(known->name);
    throw UsageError("unknown command '" + call.words[0] + "'" + did_you_mean(call.words[0], names));
  }
  // What an action does is said with its command.
  const bool of_action = call.words.size() > 1 && std::ranges::any_of(c->actions, [&](const Action& a) {
                           return !a.hidden && a.name == call.words[1];
                         });
  call.no_more_words(of_action ? 2 : 1);
  print(help_text(*c));
  return kOk;
}

}  // namespace

std::string usage_line(const Command* c) {
  if (!c) return "tessera COMMAND [ARGUMENTS] [OPTIONS]; 'tessera help' lists the commands";
  std::string out = "tessera " + std::string(c->name);
  if (!c->actions.empty()) {
    std::string names;
    for (const Action& a : c->actions) {
      if (a.hidden) continue;
      names += (names.empty() ? "" : "|") + std::string(a.name);
    }
    out += ' ' + names;
  }
  if (!c->words.empty()) out += ' ' + std::string(c->words);
  return out + " [OPTIONS]; 'tessera help " + std::string(c->name) + "' says more";
}

std::string help_text(const Command& c) {
  std::string out = "tessera " + std::string(c.name) + ": " + std::string(c.summary) + "\n\n";
  if (c.actions.empty()) {
    out += "usage: tessera " + std::string(c.name) + (c.words.empty() ? "" : " " + std::string(c.words)) +
           " [OPTIONS]\n";
  } else {
    for (const Action& a : c.actions) {
      if (a.hidden) continue;
      const std::string left = "tessera " + std::string(c.name) + ' ' + std::string(a.name) +
                               (a.words.empty() ? "" : " " + std::string(a.words));
      out += "  " + padded(left, 38) + ' ' + std::string(a.help) + '\n';
    }
  }
  if (!c.options.empty()) out += "\noptions:\n";
  for (const Option& o : c.options) out += option_line(c, o);
  out += "\nshared options:\n";
  for (const SharedOption& s : shared_options()) {
    if (find_option(c, s.option.name) == &s.option && takes(c, nullptr, s.option.name))
      out += option_line(c, s.option);
  }
  return out;
}

std::string overview() {
  std::string out =
      "tessera: selects, compiles, caches and runs the best kernel for a problem.\n\nusage: tessera COMMAND "
      "[ARGUMENTS] "
      "[OPTIONS]\n\n";
  for (const Command* c : commands()) {
    if (!c->hidden) out += "  " + padded(c->name, 12) + ' ' + std::string(c->summary) + '\n';
  }
  return out +
         "\nA problem is text, quoted or not: gemm m=64 n=64 k=64 dtype=f32 layout=rcr epilogue=bias,relu\n"
         "'tessera help COMMAND' says more about one command.\n";
}

const Command help_command{.name = "help",
                           .words = "[COMMAND [ACTION]]",
                           .summary = "this text, or help of a command",
                           .options = {},
                           .run = run,
                           .uses = 0,
                           .complete = Complete::command};

}  // namespace tessera::cli
