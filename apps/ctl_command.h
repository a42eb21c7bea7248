// Checks the name of ps-ctl's command.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "common/suggest.h"

namespace psgd {

// Suggests a command; CLI11 would only say that a subcommand is required.
inline absl::Status CheckCommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return absl::OkStatus();
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no command \"", argv[1], "\"",
                                                 Suggest(argv[1], names),
                                                 " (there are: ", absl::StrJoin(names, ", "), ")"));
}

}  // namespace psgd
