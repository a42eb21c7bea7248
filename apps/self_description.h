// Makes a program's manual page and shell completions from its options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace psgd {

// `shell` is bash, zsh or fish.
std::string CompletionOf(const CLI::App& app, absl::string_view shell);
// In roff, for man.
std::string ManualOf(const CLI::App& app);

}  // namespace psgd
