#include "cli/invocation.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/text.h"
#include "runtime/selection.h"
#include "tessera/error.h"
#include "tessera/registry.h"
#include "tessera/tune_db.h"

namespace tessera::cli {
namespace {

// What decides which kernel runs and how it was made; where things are kept and what is said does not.
constexpr const char* kDeciding[] = {"TESSERA_ARCH",      "TESSERA_CXX",       "CXX",
                                     "TESSERA_CUDA_HOME", "TESSERA_PACK_PATH", "TESSERA_DB"};
// Where the database lies, unless TESSERA_DB names it.
constexpr const char* kDatabasePlaces[] = {"TESSERA_CACHE_DIR", "XDG_CACHE_HOME"};

// The program's name, with those variables before it as a shell takes them.
std::string program() {
  std::string out;
  const auto add = [&](const char* name) {
    if (const char* text = std::getenv(name)) out += std::string(name) + '=' + shell_quote(text) + ' ';
  };
  for (const char* name : kDeciding) add(name);
  if (!std::getenv("TESSERA_DB")) {
    for (const char* name : kDatabasePlaces) add(name);
  }
  return out + "tessera";
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string hint = typing_hint(word, known);
  return hint.empty() ? "" : "; " + hint;
}

std::vector<std::string> policy_words() {
  std::vector<std::string> words = policy_names();
  std::erase(words, std::string(to_string(Policy::callback)));
  return words;
}

std::string Invocation::value(std::string_view option, std::string_view otherwise) const {
  const auto found = values.find(option);
  return found == values.end() ? std::string(otherwise) : found->second.back();
}

std::string Invocation::known_word(std::string_view option, std::string_view otherwise,
                                   const std::vector<std::string>& known) const {
  const std::string word = value(option, otherwise);
  if (std::ranges::count(known, word) > 0) return word;
  throw UsageError("unknown " + std::string(option.substr(2)) + " '" + word + "'; one of " +
                   join(known, " "));
}

std::vector<std::string> Invocation::each(std::string_view option) const {
  const auto found = values.find(option);
  return found == values.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> Invocation::list(std::string_view option) const {
  std::vector<std::string> out;
  for (const std::string& text : each(option)) {
    const size_t before = out.size();
    for (std::string_view piece : split(text, ',')) {
      if (!trim(piece).empty()) out.emplace_back(trim(piece));
    }
    if (out.size() == before)
      throw UsageError(std::string(option) + " needs a value; '" + text + "' is none");
  }
  return out;
}

int64_t Invocation::integer(std::string_view option, int64_t otherwise, int64_t least, int64_t most) const {
  if (!has(option)) return otherwise;
  const auto v = parse_int(value(option));
  if (!v || *v < least || *v > most) {
    throw UsageError(std::string(option) + " takes a whole number from " + std::to_string(least) + " to " +
                     std::to_string(most) + ", not '" + value(option) + "'");
  }
  return *v;
}

double Invocation::number(std::string_view option, double otherwise, double least) const {
  if (!has(option)) return otherwise;
  const auto v = parse_number(value(option));
  if (!v || *v < least || *v > static_cast<double>(kMostOfInteger)) {
    throw UsageError(std::string(option) + format(" takes a number from %g to ", least) +
                     std::to_string(kMostOfInteger) + ", not '" + value(option) + "'");
  }
  return *v;
}

std::string Invocation::word(size_t index, std::string_view what) const {
  if (index >= words.size()) throw UsageError(std::string(what) + " is missing");
  return words[index];
}

void Invocation::no_more_words(size_t count) const {
  if (words.size() > count) throw UsageError("unexpected argument '" + words[count] + "'");
}

std::vector<SuiteRow> suite_rows(const std::string& where, const SuiteOptions& options) {
  return usage([&] { return read_suite(where, options); });
}

void Invocation::refuse_row_selection() const {
  for (const char* option : {"--name", "--dtype"}) {
    if (has(option))
      throw UsageError(std::string(option) +
                       " is for the rows of a suite, and there is none; name one with --suite" +
                       (option == std::string_view("--dtype") ? ", or write dtype= in the problem" : ""));
  }
}

Problem Invocation::problem() const {
  if (has("--suite")) {
    const std::string text = join(words, " ");
    if (const auto said = split_words(text); !said.empty() && is_op(said[0]))
      throw UsageError("the problem '" + text + "' and --suite contradict each other");
    const auto rows =
        suite_rows(value("--suite"), {.dtype = value("--dtype"), .extra = text, .name = value("--name")});
    if (rows.size() == 1) return rows[0].problem;
    std::vector<std::string> names;
    for (const SuiteRow& row : rows) names.push_back(row.name);
    const std::string more = names.size() > 6 ? ", ..." : "";
    names.resize(std::min<size_t>(names.size(), 6));
    throw UsageError("--suite selects " + std::to_string(rows.size()) +
                     " problems; choose one with --name: " + join(names, ", ") + more);
  }
  refuse_row_selection();
  if (words.empty())
    throw UsageError("the problem is missing, for example: 'gemm m=512 n=512 k=512 dtype=f32'");
  try {
    return Problem::parse(join(words, " "));
  } catch (const Error& e) { throw UsageError(e.what()); }
}

std::string Invocation::database() const {
  const std::string path = value("--db", default_tune_db());
  return path == "none" ? "" : path;
}

DispatcherOptions Invocation::dispatcher_options() const {
  DispatcherOptions o;
  o.device = value("--device", "cpu");
  if (has("--arch")) {
    const std::string arch = value("--arch");
    o.device = only_plans(arch) ? arch : "null:" + arch;
    if (has("--device") && value("--device") != o.device)
      throw UsageError("--device " + value("--device") + " and --arch " + arch + " contradict each other");
  }
  o.threads = static_cast<int>(integer("--threads", 0, 0, kMostThreads));
  if (has("--threads") && o.device.starts_with("cpu:") && o.device != "cpu:" + value("--threads"))
    throw UsageError("--device " + o.device + " and --threads " + value("--threads") +
                     " contradict each other");
  o.config = value("--config");
  if (std::string why; has("--config") && !KernelConfig::parse(o.config, &why))
    throw UsageError("--config '" + o.config + "': " + why);
  o.top_k = static_cast<int>(integer("--top-k", o.top_k, 0, kMostTopK));
  o.background = false;  // a program that ends with its answer
  o.model = value("--model");
  o.cache_dir = value("--cache-dir");
  o.packs = each("--pack");
  // A config given without a policy is meant to be used.
  o.policy = parse_policy(known_word("--policy", has("--config") ? "explicit" : "model", policy_words()));
  if (o.policy == Policy::explicit_config && o.config.empty())
    throw UsageError("policy 'explicit' needs --config");
  if (o.policy != Policy::explicit_config && has("--config"))
    throw UsageError("--config and --policy " + value("--policy") + " contradict each other");
  if (o.policy != Policy::model_topk && has("--top-k")) throw UsageError("--top-k is of --policy model_topk");
  o.decisions = open_decisions(database(), has("--db") && !database().empty());
  for (const std::string& path : each("--registry")) {
    auto loaded = Registry::parse(read_file(path), path);
    if (o.registry) {
      o.registry->merge(*loaded);
    } else {
      o.registry = std::move(loaded);
    }
  }
  return o;
}

std::string Invocation::output(std::string_view option) const {
  std::string path = value(option);
  if (path == "-") throw UsageError(std::string(option) + " names a file; standard output is /dev/stdout");
  if (has(option) && json() && is_standard_output(path))
    throw UsageError(std::string(option) + " would mix with the JSON on standard output; name a file");
  if (has(option)) check_writable(path);
  return path;
}

std::string shell_quote(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_=./:,+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string Invocation::reproduce() const {
  std::string out = program();
  for (const std::string& word : argv) out += ' ' + shell_quote(word);
  return out;
}

std::string Invocation::reproduce(std::string_view verb, const Problem& problem,
                                  std::initializer_list<std::string_view> own,
                                  const std::string& config) const {
  std::string out = program() + ' ' + std::string(verb) + ' ' + shell_quote(to_string(problem));
  const auto add = [&](std::string_view option) {
    for (const std::string& text : each(option))
      out += ' ' + std::string(option) + (text.empty() ? "" : ' ' + shell_quote(text));
  };
  for (const auto& [use, option] : shared_options()) {
    const bool chose = option.name == "--config" || option.name == "--policy" || option.name == "--top-k";
    if (!option.placeholder.empty() && (config.empty() || !chose)) add(option.name);
  }
  if (!config.empty()) out += " --config " + shell_quote(config);
  for (std::string_view option : own) add(option);
  return out;
}

}  // namespace tessera::cli
