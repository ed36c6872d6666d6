// Completion scripts of three shells, made from the table of verbs.
#include <algorithm>

#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "cli/sweep_words.h"
#include "core/arch_spec.h"
#include "runtime/generate.h"
#include "runtime/kernel_set.h"
#include "tessera/dispatcher.h"
#include "tessera/problem.h"
#include "tune/peer.h"
#include "tune/search.h"
#include "tune/suite.h"
#include "tune/sweep_record.h"
#include "tune/training_data.h"

namespace tessera::cli {
namespace {

// A script carries all it needs, so that completing starts no program.
struct Script {
  std::string_view shell;
  std::string (*make)();
};

std::vector<std::string> listed(const std::string& names) {
  const auto words = split_words(names);
  return {words.begin(), words.end()};
}

std::vector<std::string> words_of(Complete what) {
  std::vector<std::string> out;
  switch (what) {
    case Complete::problem: return problem_words();
    case Complete::arch:
      for (const ArchSpec& a : all_archs()) out.push_back(a.name);
      return out;
    case Complete::dtype:  // u8 is an operand beside i8 only
      for (int i = 0; i < kDTypeCount; ++i) {
        const auto t = static_cast<DType>(i);
        if (info(t).operand)
          out.push_back(t == DType::u8 ? types_text(t, DType::i8) : std::string(to_string(t)));
      }
      return out;
    case Complete::layout: return listed(layout_names(Op::gemm));
    case Complete::policy: return policy_words();
    case Complete::suite: return suite_names();
    case Complete::shell: return {"bash", "zsh", "fish"};
    case Complete::command:
      for (const Command* c : commands()) out.emplace_back(c->name);
      return out;
    case Complete::set:
      for (const KernelSet& s : kernel_sets()) out.push_back(s.name);
      out.emplace_back("list");
      return out;
    case Complete::variant:
      for (const GenerateVariant& v : generate_variants()) out.emplace_back(v.name);
      return out;
    case Complete::device:
      out = {"cpu", "cpu:1", "cuda:0"};
      for (const ArchSpec& a : all_archs()) out.push_back("null:" + a.name);
      return out;
    case Complete::stage: return {std::begin(kSweepStages), std::end(kSweepStages)};
    case Complete::outcome: return {sweep_outcome_names().begin(), sweep_outcome_names().end()};
    case Complete::fold: return {fold_names().begin(), fold_names().end()};
    case Complete::strategy:
      for (const SearchStrategy& s : search_strategies()) out.emplace_back(s.name);
      return out;
    case Complete::peer: return {"onednn", "openblas", "blis", "libxsmm"};
    default: return out;
  }
}

// A key of a problem whose values are words to choose from.
struct Key {
  std::string name;
  std::vector<std::string> values;
};
std::vector<Key> problem_keys() {
  return {{"dtype", words_of(Complete::dtype)}, {"layout", listed(layout_names())}};
}

bool completes_files(Complete what) {
  return what == Complete::file || what == Complete::directory || what == Complete::suite;
}

std::string spaced(const std::vector<std::string>& words) { return join(words, " "); }

std::vector<Option> options_of(const Command& c) {
  std::vector<Option> all(c.options.begin(), c.options.end());
  for (const SharedOption& s : shared_options()) {
    if (find_option(c, s.option.name) == &s.option && takes(c, nullptr, s.option.name))
      all.push_back(s.option);
  }
  return all;
}

// Shared options whose value is a word of its own, which may stand before the verb.
std::vector<std::string> valued_options() {
  std::vector<std::string> out;
  for (const SharedOption& s : shared_options()) {
    if (!s.option.placeholder.empty()) out.emplace_back(s.option.name);
  }
  return out;
}

// Words that may stand where an argument of the command is expected.
std::vector<std::string> arguments_of(const Command& c) {
  std::vector<std::string> out;
  for (const Action& a : c.actions) {
    if (!a.hidden) out.emplace_back(a.name);
  }
  for (std::string& word : words_of(c.complete)) out.push_back(std::move(word));
  return out;
}

// The same for shells to which KEY=VALUE is one word.
std::vector<std::string> whole_arguments_of(const Command& c) {
  std::vector<std::string> out = arguments_of(c);
  if (c.complete != Complete::problem) return out;
  for (const Key& k : problem_keys()) {
    for (const std::string& value : k.values) out.push_back(k.name + '=' + value);
  }
  return out;
}

std::string bash() {
  std::string out =
      "# bash completion of tessera\n"
      "_tessera() {\n"
      "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\" verb=\"\" i\n"
      "  COMPREPLY=()\n"
      // An equals sign is a word of its own: dtype = f32.
      "  local key=\"\"\n"
      "  [ \"$prev\" = \"=\" ] && key=\"${COMP_WORDS[COMP_CWORD-2]}\"\n"
      "  [ \"$cur\" = \"=\" ] && key=\"$prev\" cur=\"\"\n"
      "  case \"$key\" in -*) prev=\"$key\" ;; esac\n"
      // A colon is a word of its own: null : ARCH.
      "  local head=\"\" at=$COMP_CWORD\n"
      "  [ \"$cur\" = \":\" ] && { cur=\"\"; at=$((at + 1)); prev=\":\"; }\n"
      "  if [ \"$prev\" = \":\" ] && ((at > 3)); then\n"
      "    head=\"${COMP_WORDS[at-2]}:\" prev=\"${COMP_WORDS[at-3]}\"\n"
      "  fi\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"${COMP_WORDS[i]}\" in\n"
      "      " +
      join(valued_options(), "|") +
      ")\n"
      "        i=$((i + 1)); [ \"${COMP_WORDS[i+1]}\" = \":\" ] && i=$((i + 2)) ;;\n"
      "      -*) ;;\n"
      "      *) verb=\"${COMP_WORDS[i]}\"; break ;;\n"
      "    esac\n"
      "  done\n"
      "  local action=\"\"\n"
      "  ((i + 1 < COMP_CWORD)) && action=\"${COMP_WORDS[i+1]}\"\n"
      "  local words=\"\" files=\"\"\n"
      "  case \"$verb:$prev\" in\n";
  for (const Command* c : commands()) {
    for (const Option& o : options_of(*c)) {
      if (o.placeholder.empty()) continue;
      const std::string words = spaced(words_of(o.complete));
      out += "    " + std::string(c->name) + ":" + std::string(o.name) + ") words=\"" + words + "\"" +
             (completes_files(o.complete) ? " files=-f" : "") + " ;;\n";
    }
  }
  for (const SharedOption& o : shared_options()) {
    if (o.option.placeholder.empty()) continue;
    out += "    :" + std::string(o.option.name) + ") words=\"" + spaced(words_of(o.option.complete)) + "\"" +
           (completes_files(o.option.complete) ? " files=-f" : "") + " ;;\n";
  }
  out += "    *)\n      case \"$verb:$action\" in\n        :) words=\"" +
         spaced(words_of(Complete::command)) + "\" ;;\n";
  for (const Command* c : commands()) {
    const auto row = [&](const std::string& of, const std::vector<std::string>& words) {
      out += "        " + std::string(c->name) + ":" + of + ") words=\"" + spaced(words) + "\"" +
             (completes_files(c->complete) ? " files=-f" : "") + " ;;\n";
    };
    for (const Action& a : c->actions) {
      if (a.hidden) continue;
      std::vector<std::string> words = words_of(c->complete);
      for (const Option& o : options_of(*c)) {
        if (takes(*c, &a, o.name)) words.emplace_back(o.name);
      }
      row(std::string(a.name), words);
    }
    std::vector<std::string> words = arguments_of(*c);
    for (const Option& o : options_of(*c)) words.emplace_back(o.name);
    row("*", words);
  }
  out +=
      "      esac ;;\n"
      "  esac\n"
      "  case \"$key\" in\n";
  for (const Key& k : problem_keys()) out += "    " + k.name + ") words=\"" + spaced(k.values) + "\" ;;\n";
  return out +
         "  esac\n"
         // The last of several: onednn,op.
         "  local before=\"\"\n"
         "  [ -n \"$words\" ] && case \"$cur\" in *,*) before=\"${cur%,*},\" cur=\"${cur##*,}\" ;; esac\n"
         "  COMPREPLY=($(compgen $files -P \"$before\" -W \"$words\" -- \"$head$cur\"))\n"
         "  [ -n \"$head\" ] && [ ${#COMPREPLY[@]} -gt 0 ] && COMPREPLY=(\"${COMPREPLY[@]#\"$head\"}\")\n"
         "  case \"${COMPREPLY[0]:-}\" in *=) compopt -o nospace 2>/dev/null ;; esac\n"
         "}\n"
         "complete -F _tessera tessera\n";
}

std::string single_quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// In a zsh specification brackets and colons have meanings.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (char c : text) out += (c == '[' || c == ']' || c == ':') ? std::string("\\") + c : std::string(1, c);
  return out;
}

std::string zsh_values(Complete what) {
  const std::vector<std::string> words = words_of(what);
  if (what == Complete::directory) return "_files -/";
  if (completes_files(what)) return "_files";
  return words.empty() ? "" : "(" + zsh_text(spaced(words)) + ")";
}

std::string zsh_option(const Option& o) {
  std::string spec = "*" + std::string(o.name) + "[" + zsh_text(o.help) + "]";
  if (!o.placeholder.empty()) spec += ":" + std::string(o.placeholder) + ":" + zsh_values(o.complete);
  return single_quoted(spec);
}

std::string zsh() {
  std::string out =
      "#compdef tessera\n"
      "_tessera() {\n"
      "  local -a verbs\n"
      "  verbs=(\n";
  for (const Command* c : commands()) {
    out += "    " + single_quoted(std::string(c->name) + ":" + zsh_text(c->summary)) + "\n";
  }
  out +=
      "  )\n"
      "  local i=2\n"
      "  while (( i < CURRENT )) && [[ $words[i] == -* ]]; do\n"
      "    case $words[i] in\n"
      "      " +
      join(valued_options(), "|") +
      ") (( i += 2 )) ;;\n"
      "      *) (( i += 1 )) ;;\n"
      "    esac\n"
      "  done\n"
      "  if (( i > CURRENT )); then\n"
      "    _arguments";
  for (const SharedOption& s : shared_options()) {
    if (!s.option.placeholder.empty()) out += " \\\n      " + zsh_option(s.option);
  }
  out +=
      "\n    return\n"
      "  fi\n"
      "  if (( i == CURRENT )); then _describe command verbs; return; fi\n"
      "  local verb=$words[i]\n"
      "  words=(\"${(@)words[i,-1]}\"); (( CURRENT -= i - 1 ))\n"
      "  case $verb in\n";
  for (const Command* c : commands()) {
    out += "    " + std::string(c->name) + ")\n      _arguments";
    for (const Option& o : options_of(*c)) out += " \\\n        " + zsh_option(o);
    const std::string arguments = completes_files(c->complete) && c->actions.empty()
                                      ? "_files"
                                      : "(" + spaced(whole_arguments_of(*c)) + ")";
    out += " \\\n        " + single_quoted("*:argument:" + arguments) + " ;;\n";
  }
  return out + "  esac\n}\n_tessera \"$@\"\n";
}

std::string fish() {
  std::string out =
      "# fish completion of tessera\n"
      "function __tessera_verb\n"
      "  set -l words (commandline -opc)\n"
      "  set -e words[1]\n"
      "  while set -q words[1]\n"
      "    switch $words[1]\n"
      "      case " +
      spaced(valued_options()) +
      "\n"
      "        set -e words[1]\n"
      "        set -q words[1]; and set -e words[1]\n"
      "      case '-*'\n"
      "        set -e words[1]\n"
      "      case '*'\n"
      "        echo $words[1]\n"
      "        return 0\n"
      "    end\n"
      "  end\n"
      "  return 1\n"
      "end\n"
      "function __tessera_verb_is\n"
      "  contains -- $argv[1] (__tessera_verb)\n"
      "end\n"
      "complete -c tessera -f\n";
  for (const Command* c : commands()) {
    out += "complete -c tessera -n 'not __tessera_verb >/dev/null' -a " + std::string(c->name) + " -d " +
           single_quoted(c->summary) + "\n";
    const std::string here = "complete -c tessera -n '__tessera_verb_is " + std::string(c->name) + "'";
    const std::string words = spaced(whole_arguments_of(*c));
    if (!words.empty()) out += here + " -a " + single_quoted(words) + "\n";
    if (completes_files(c->complete)) out += here + " -F\n";
    for (const Option& o : options_of(*c)) {
      out += here + " -l " + std::string(o.name.substr(2)) + " -d " + single_quoted(o.help);
      if (!o.placeholder.empty()) {
        out += completes_files(o.complete) ? " -r -F" : " -x";
        const std::string values = spaced(words_of(o.complete));
        if (!values.empty()) out += " -a " + single_quoted(values);
      }
      out += "\n";
    }
  }
  return out;
}

constexpr Script kScripts[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

int run(const Invocation& call) {
  const std::string shell = call.word(0, "the shell (bash, zsh or fish)");
  call.no_more_words(1);
  for (const Script& s : kScripts) {
    if (s.shell != shell) continue;
    print(s.make());
    return kOk;
  }
  throw UsageError("no completion for shell '" + shell + "'; one of " + join(words_of(Complete::shell), " "));
}

}  // namespace

const Command completion_command{.name = "completion",
                                 .words = "bash|zsh|fish",
                                 .summary = "print the completion script of a shell",
                                 .options = {},
                                 .run = run,
                                 .uses = 0,
                                 .complete = Complete::shell};

}  // namespace tessera::cli
