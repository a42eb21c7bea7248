// A program's manual page and shell completions, made from the options that it takes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace psgd {

// For `shell`: bash, zsh or fish.
std::string CompletionOf(const CLI::App& app, absl::string_view shell);
// As roff, for man.
std::string ManualOf(const CLI::App& app);

}  // namespace psgd
