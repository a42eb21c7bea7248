// What an App of CLI11 says of itself, taken apart.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace psgd {

struct DescribedOption {
  std::vector<std::string> names;    // "--help", "-h"; none: an argument without a name
  std::string value;                 // what it takes, as "DIR"; empty: nothing
  std::vector<std::string> choices;  // where only some words will do
  std::string text;
};
std::vector<DescribedOption> OptionsOf(const CLI::App& app);

struct DescribedApp {
  std::string text;      // what it is
  std::string examples;  // without their heading
};
DescribedApp Describe(const CLI::App& app);

std::vector<const CLI::App*> CommandsOf(const CLI::App& app);

}  // namespace psgd
