// One parsed command line.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tune/suite.h"

namespace tessera::cli {

// The command line itself is wrong: exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What reads an option's value, whose Error(bad_input) is wrong usage.
template <class F>
auto usage(F read) {
  try {
    return read();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::bad_input) throw UsageError(e.what());
    throw;
  }
}

class Invocation {
 public:
  const Command* command = nullptr;
  const Action* action = nullptr;
  std::vector<std::string> words;  // positional, the action left out
  std::map<std::string, std::vector<std::string>, std::less<>>
      values;                     // by option name; flags have one empty value
  std::vector<std::string> argv;  // as typed, the program left out

  bool has(std::string_view option) const { return values.count(option) > 0; }
  bool json() const { return has("--json"); }
  std::string value(std::string_view option, std::string_view otherwise = {}) const;  // the last one given
  std::vector<std::string> each(std::string_view option) const;                       // every one
  std::vector<std::string> list(std::string_view option) const;  // every one, split at commas
  // A word by which one of the rows of a table is named; UsageError for any other.
  template <class Rows>
  std::string one_of(std::string_view option, std::string_view otherwise, const Rows& rows) const {
    std::vector<std::string> names;
    for (const auto& row : rows) names.emplace_back(row.name);
    return known_word(option, otherwise, names);
  }
  // UsageError outside least..most or when it is no whole number.
  int64_t integer(std::string_view option, int64_t otherwise, int64_t least = 0,
                  int64_t most = kMostOfInteger) const;
  double number(std::string_view option, double otherwise, double least = 0) const;

  // The words as one problem, or the row that --suite and --name select. UsageError when it cannot be read.
  Problem problem() const;
  std::string word(size_t index, std::string_view what) const;  // UsageError "WHAT is missing"
  void no_more_words(size_t count) const;                       // UsageError when there are more

  // UsageError where --name or --dtype are given, which select among rows, and no suite is.
  void refuse_row_selection() const;

  // The database of --db, TESSERA_DB or the cache directory; "" for --db none.
  std::string database() const;

  // Dispatcher options from the global ones; --arch plans for another device.
  DispatcherOptions dispatcher_options() const;

  // The file that `option` names, to be written after long work; "" when it is not given. Error(io) where it
  // could not be written.
  std::string output(std::string_view option) const;

  // "tessera run ...", quoted for a shell: this call, as typed.
  std::string reproduce() const;
  // The call that repeats what this one did with a single problem: `verb` with the shared options of this
  // call and those of its own that are named. A config that was chosen stands for the options that chose it.
  std::string reproduce(std::string_view verb, const Problem& problem,
                        std::initializer_list<std::string_view> own = {},
                        const std::string& config = {}) const;

  static constexpr int64_t kMostOfInteger = 1'000'000'000;
  static constexpr int64_t kMostJobs = 4096;
  static constexpr int64_t kMostSeed = INT64_MAX;

 private:
  std::string known_word(std::string_view option, std::string_view otherwise,
                         const std::vector<std::string>& known) const;
};

// read_suite, of which names that are unknown and rows that cannot be read are a UsageError.
std::vector<SuiteRow> suite_rows(const std::string& where, const SuiteOptions& options);

// The rest from call.argv. UsageError; what was understood until then, the command first, is there.
void parse_command_line(Invocation& call);
// UsageError where --device or --arch, whichever verb takes them, are words that name none.
void check_names(const Invocation& call);
std::string shell_quote(std::string_view text);

// Those of --policy: all but what exists in programs only.
std::vector<std::string> policy_words();

// "did you mean 'x'?" or ""
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace tessera::cli
