// The parts of an App of CLI11, for manual pages and completions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace psgd {

struct DescribedOption {
  std::vector<std::string> names;    // "--help", "-h"; empty: a positional argument
  std::string value;                 // the value's type, such as "DIR"; empty: takes no value
  std::vector<std::string> choices;  // the allowed words; empty: any
  std::string text;
};
DescribedOption DescribeOption(const CLI::Option& option);
std::vector<DescribedOption> OptionsOf(const CLI::App& app);

struct DescribedApp {
  std::string text;      // what the app does
  std::string examples;  // without the heading
};
DescribedApp Describe(const CLI::App& app);

std::vector<const CLI::App*> CommandsOf(const CLI::App& app);

}  // namespace psgd
