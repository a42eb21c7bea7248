// What all programs do with their command lines.
#pragma once

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "apps/exit_code.h"

namespace psgd {

// Nothing: go on. Otherwise the help was shown, or the error, and main ends with this code.
inline std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help
    app.exit(done);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    std::cerr << app.get_name() << ": " << error.what() << "\n(" << app.get_name()
              << " --help shows examples and all options)\n";
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace psgd
