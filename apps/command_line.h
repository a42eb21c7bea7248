// Parses command lines in the same way for all programs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "apps/exit_code.h"
#include "apps/self_description.h"

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
};

// Returns nothing if the program should go on. Otherwise help or an error was shown, and main
// returns this exit code.
inline std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv) {
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
