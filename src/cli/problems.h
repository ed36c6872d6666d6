// Lists of problems: files with one per line, suites, single ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/invocation.h"

namespace tessera::cli {

// One problem per line; '#' starts a comment. Error(bad_input) with file and line.
std::vector<SuiteRow> parse_problem_list(std::string_view text, std::string_view origin);

// Whether --suite or one of the words names a suite.
bool reads_suite(const Invocation& call);

// Every word is a problem's text, a suite (.csv, file or embedded) or a file of problems; several unquoted
// words that start with an operation are one problem. --suite adds its rows. UsageError when there is none,
// or a selection among rows without a suite.
std::vector<SuiteRow> problems_of(const Invocation& call);

}  // namespace tessera::cli
