
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "apps/described_app.h"
#include "apps/self_description.h"

namespace psgd {
namespace {

// Escapes text for roff, so that no line begins with a request.
std::string Roff(absl::string_view text) {
  const std::string escaped =
      absl::StrCat("\n", absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}}));
  return absl::StrReplaceAll(escaped, {{"\n.", "\n\\&."}, {"\n'", "\n\\&'"}}).substr(1);
}

std::string OptionsText(const CLI::App& app) {
  std::string text;
  for (const DescribedOption& option : OptionsOf(app)) {
    const std::string value =
        option.choices.empty() ? option.value : absl::StrJoin(option.choices, "|");
    absl::StrAppend(
        &text, ".TP\n\\fB", Roff(absl::StrJoin(option.names, ", ")), "\\fR",
        value.empty() ? ""
                      : absl::StrCat(option.names.empty() ? "" : " ", "\\fI", Roff(value), "\\fR"),
        "\n", Roff(option.text), "\n");
  }
  return text;
}

std::string Examples(const std::string& examples) {
  if (examples.empty()) return "";
  std::string text = ".nf\n";
  for (absl::string_view line :
       absl::StrSplit(absl::StripTrailingAsciiWhitespace(examples), '\n')) {
    absl::StrAppend(&text, Roff(line), "\n");
  }
  return text + ".fi\n";
}

}  // namespace

std::string ManualOf(const CLI::App& app) {
  const std::string& name = app.get_name();
  const DescribedApp described = Describe(app);
  const std::string first = described.text.substr(0, described.text.find_first_of(":.;"));
  std::string page = absl::StrCat(".TH ", absl::AsciiStrToUpper(Roff(name)),
                                  " 1 \"\" psgd \"psgd manual\"\n.SH NAME\n", name, " \\- ",
                                  Roff(first), "\n.SH SYNOPSIS\n.B ", Roff(name), "\n");
  const std::vector<const CLI::App*> commands = CommandsOf(app);
  absl::StrAppend(&page,
                  commands.empty() ? "[\\fIoptions\\fR]\n" : "\\fIcommand\\fR [\\fIoptions\\fR]\n",
                  ".SH DESCRIPTION\n", Roff(described.text), "\n.SH OPTIONS\n", OptionsText(app));
  if (!commands.empty()) absl::StrAppend(&page, ".SH COMMANDS\n");
  for (const CLI::App* command : commands) {
    absl::StrAppend(&page, ".SS ", command->get_name(), "\n", Roff(Describe(*command).text), "\n",
                    OptionsText(*command));
  }
  if (!described.examples.empty())
    absl::StrAppend(&page, ".SH EXAMPLES\n", Examples(described.examples));
  return absl::StrCat(
      page,
      ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nthe run or the request failed\n.TP\n2\nthe command "
      "line, the config or the data are wrong\n.TP\n3\nstopped as asked; what was done is saved\n");
}

}  // namespace psgd
