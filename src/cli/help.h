// Texts about the verbs, made from their table.
#pragma once

#include <string>

#include "cli/command.h"

namespace tessera::cli {

std::string usage_line(const Command* command);  // null: of the program
std::string help_text(const Command& command);
std::string overview();

}  // namespace tessera::cli
