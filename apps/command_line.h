// Parses command lines in the same way for all programs.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/described_app.h"
#include "apps/exit_code.h"
#include "apps/self_description.h"
#include "common/suggest.h"

namespace psgd {

// Shows an app's footer, which has its examples, before everything else.
class ExamplesFirst : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    const std::string help = CLI::Formatter::make_help(app, name, mode);
    return app->get_footer().empty() ? help : app->get_footer() + "\n" + help;
  }
  std::string make_footer(const CLI::App*) const override { return ""; }
  // "N", "auto|ipc|zmq" or "DIR", and the default. What excludes what, the error says.
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_items_expected_max() == 0) return "";
    const DescribedOption described = DescribeOption(*option);
    std::string opts;
    if (!described.names.empty()) {
      opts = " " +
             (described.choices.empty() ? described.value : absl::StrJoin(described.choices, "|"));
    }
    if (option->get_expected_max() > 1 && option->get_allow_extra_args()) opts += " ...";
    if (option->get_required()) opts += " (required)";
    if (!option->get_default_str().empty()) opts += " [" + option->get_default_str() + "]";
    return opts;
  }
};

// Checks an option whose default must not hold for an empty value, as of an unset shell variable.
inline std::string NotEmpty(const std::string& value) {
  return value.empty() ? "the value is empty; leave the option out for its default" : "";
}

// A hint for an option that a program does not have, and its value: "; say ...". Empty: no hint.
// For another word that is not expected, `value` is the rest of the command line.
using OptionHint = std::function<std::string(const std::string& option, const std::string& value)>;

// A hint for a word that is no option. Empty: none.
inline std::string SuggestForWord(const std::string& word, bool has_set, int argc, char** argv,
                                  const OptionHint& hint_for) {
  const auto at = std::find(argv, argv + argc, word);
  if (has_set && word.find('=', 1) != std::string::npos) return "; say --set " + word;
  if (has_set && at - argv > 2 && at[-2] == std::string("--set"))
    return absl::StrCat("; say --set ", at[-1], "=", word);
  return hint_for ? hint_for(word, absl::StrJoin(at, argv + argc, " ")) : "";
}

// Suggests options for those that the app does not know.
inline std::string SuggestOptions(const CLI::App& app, int argc, char** argv,
                                  const OptionHint& hint_for) {
  std::vector<std::string> known;
  const auto add = [&](const CLI::App& one) {
    for (const DescribedOption& option : OptionsOf(one)) {
      known.insert(known.end(), option.names.begin(), option.names.end());
    }
  };
  add(app);
  for (const CLI::App* command : app.get_subcommands()) add(*command);
  for (const std::string& word : app.remaining(/*recurse=*/true)) {
    if (!word.starts_with("-")) {
      const bool has_set = std::ranges::count(known, "--set") > 0;
      const std::string hint = SuggestForWord(word, has_set, argc, argv, hint_for);
      if (!hint.empty()) return hint;
    }
    if (!word.starts_with("--")) continue;
    const std::string plural = word.substr(0, word.find('=')) + "s";
    if (std::ranges::count(known, plural) > 0) return Suggest(plural, known);
    if (hint_for) {
      const size_t end = std::min(word.find('='), word.size());
      std::string value = end < word.size() ? word.substr(end + 1) : "";
      const auto at = std::find(argv, argv + argc, word);
      if (value.empty() && argc - (at - argv) > 1 && at[1][0] != '-') value = at[1];
      const std::string hint = hint_for(word.substr(0, end), value.empty() ? "VALUE" : value);
      if (!hint.empty()) return hint;
    }
    const std::string hint = Suggest(word.substr(0, word.find('=')), known);
    if (!hint.empty()) return hint;
  }
  return "";
}

// Returns nothing if the program should go on. Otherwise help or an error was shown, and main
// returns this exit code.
inline std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv,
                                           const OptionHint& hint_for = nullptr) {
  const auto formatter = std::make_shared<ExamplesFirst>();
  app.formatter(formatter);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    command->formatter(formatter);
  app.set_version_flag("--version", absl::StrCat(app.get_name(), " (psgd) " PSGD_VERSION),
                       "Print the version and exit");
  bool man = false;
  std::string completion;
  app.add_flag("--man", man, "Print the manual page, as roff");
  app.add_option("--completion", completion, "Print completions for that shell")
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--man") {
    std::cout << ManualOf(app);
    return kExitOk;
  }
  const std::string shell = argc > 2 ? argv[2] : "";
  if (first == "--completion" && (shell == "bash" || shell == "zsh" || shell == "fish")) {
    std::cout << CompletionOf(app, shell);
    return kExitOk;
  }
  // gRPC's errors come back as statuses; its lines on stderr would repeat them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // GCC's OpenMP lets a thread without work spin for milliseconds. Where other programs use the
  // cores, too, the idle thread takes them from threads that have work, and a step takes ten times
  // as long. oneDNN loads OpenMP, which reads this then. A thousand loops last some ten
  // microseconds.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    app.exit(done);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    // CLI11 names them in reverse.
    std::cerr << app.get_name() << ": "
              << (unknown ? "not expected: " + absl::StrJoin(app.remaining(/*recurse=*/true), " ")
                          : error.what())
              << (unknown ? SuggestOptions(app, argc, argv, hint_for) : "") << "\n("
              << app.get_name() << " --help shows examples and all options)\n";
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace psgd
