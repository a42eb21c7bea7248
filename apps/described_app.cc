#include "apps/described_app.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace psgd {
namespace {

constexpr absl::string_view kHeading = "Examples:\n";

// Returns "onednn", "reference" for the type "TEXT:{onednn,reference}".
std::vector<std::string> ChoicesIn(const std::string& type) {
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
}

// Returns "N" for the type "INT:INT in [1 - 64]", and "HOST:PORT" and "[NAME:]KEY=VALUE" as they
// are.
std::string ValueIn(const std::string& type) {
  size_t end = type.find(':');
  const auto is_of_name = [&] {
    return type.compare(end + 1, 4, "PORT") == 0 || type.compare(end + 1, 1, "]") == 0;
  };
  while (end != std::string::npos && is_of_name()) end = type.find(':', end + 1);
  const std::string value = type.substr(0, end);
  if (value == "INT" || value == "UINT" || value == "FLOAT") return "N";
  return value.empty() ? "VALUE" : value;
}

}  // namespace

DescribedOption DescribeOption(const CLI::Option& option) {
  DescribedOption described;
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  const std::string type = option.get_type_name();
  if (option.get_items_expected_max() > 0) {
    described.choices = ChoicesIn(type);
    described.value = ValueIn(type);
  }
  described.text = option.get_description();
  if (!option.get_default_str().empty()) {
    absl::StrAppend(&described.text, " (", option.get_default_str(), ")");
  }
  if (described.names.empty()) described.value = option.get_name(true);
  return described;
}

std::vector<DescribedOption> OptionsOf(const CLI::App& app) {
  std::vector<DescribedOption> options;
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return !o->get_group().empty(); })) {
    options.push_back(DescribeOption(*option));
  }
  return options;
}

DescribedApp Describe(const CLI::App& app) {
  // Programs have examples at the start of their text, commands at the end.
  const std::string description = app.get_description();
  const std::string footer = app.get_footer();
  absl::string_view text = description;
  absl::string_view examples = footer;
  absl::string_view leading = text;
  if (absl::ConsumePrefix(&leading, kHeading)) {
    const size_t end = std::min(leading.find("\n\n"), leading.size());
    examples = leading.substr(0, end);
    text = leading.substr(std::min(end + 2, leading.size()));
  }
  absl::ConsumePrefix(&examples, kHeading);
  return {std::string(text), std::string(examples)};
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

}  // namespace psgd
