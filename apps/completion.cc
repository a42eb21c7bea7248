#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "apps/described_app.h"
#include "apps/self_description.h"

namespace psgd {
namespace {

std::string FunctionName(const CLI::App& app) {
  return absl::StrCat("_", absl::StrReplaceAll(app.get_name(), {{"-", "_"}}));
}

std::vector<std::string> NamesOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const DescribedOption& option : OptionsOf(app)) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// True if a word without dashes may be something other than a command.
bool TakesWords(const CLI::App& app) {
  const auto options = OptionsOf(app);
  return std::any_of(options.begin(), options.end(),
                     [](const DescribedOption& option) { return option.names.empty(); });
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(app)) names.push_back(command->get_name());
  return names;
}

// Writes the branches of a bash `case`: the words that may follow each option.
void AppendChoices(const CLI::App& app, std::string* script) {
  for (const DescribedOption& option : OptionsOf(app)) {
    if (option.names.empty() || option.value.empty()) continue;
    absl::StrAppend(
        script, "    ", absl::StrJoin(option.names, "|"), ") ",
        option.choices.empty()
            ? "words=; files=yes"
            : absl::StrCat("words='", absl::StrJoin(option.choices, " "), "'; files=no"),
        " ;;\n");
  }
}

std::string Bash(const CLI::App& app) {
  const std::string function = FunctionName(app);
  std::string script = absl::StrCat("# bash completion for ", app.get_name(), "\n", function,
                                    "() {\n  local cur=${COMP_WORDS[COMP_CWORD]} "
                                    "prev=${COMP_WORDS[COMP_CWORD-1]} words files=yes\n");
  const auto commands = CommandsOf(app);
  absl::StrAppend(&script, "  words='", absl::StrJoin(NamesOf(app), " "), "'\n");
  if (!commands.empty()) {
    absl::StrAppend(&script, "  if ((COMP_CWORD == 1)); then words+=' ",
                    absl::StrJoin(CommandNames(app), " "), "'", TakesWords(app) ? "" : "; files=no",
                    "; fi\n  case ${COMP_WORDS[1]} in\n");
    for (const CLI::App* command : commands) {
      absl::StrAppend(&script, "  ", command->get_name(), ") ((COMP_CWORD == 1)) || words='",
                      absl::StrJoin(NamesOf(*command), " "), "' ;;\n");
    }
    absl::StrAppend(&script, "  esac\n");
  }
  absl::StrAppend(&script, "  case $prev in\n");
  AppendChoices(app, &script);
  for (const CLI::App* command : commands) AppendChoices(*command, &script);
  absl::StrAppend(
      &script,
      "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "  if [[ $files == yes && $cur != -* ]]; then COMPREPLY+=($(compgen -f -- \"$cur\")); fi\n}\n"
      "complete -o filenames -F ",
      function, " ", app.get_name(), "\n");
  return script;
}

// Escapes text for zsh, inside brackets and between colons.
std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}, {"\n", " "}});
}

std::string ZshArguments(const CLI::App& app, const std::string& indent) {
  std::string lines;
  for (const DescribedOption& option : OptionsOf(app)) {
    const std::string after =
        option.value.empty()
            ? ""
            : absl::StrCat(":", ZshText(option.value), ":",
                           option.choices.empty()
                               ? std::string("_files")
                               : absl::StrCat("(", absl::StrJoin(option.choices, " "), ")"));
    for (const std::string& name : option.names) {
      absl::StrAppend(&lines, " \\\n", indent, "'*", name, "[", ZshText(option.text), "]", after,
                      "'");
    }
    if (option.names.empty()) absl::StrAppend(&lines, " \\\n", indent, "'*", after, "'");
  }
  return lines;
}

std::string Zsh(const CLI::App& app) {
  std::string script = absl::StrCat("#compdef ", app.get_name(), "\n");
  const auto commands = CommandsOf(app);
  if (commands.empty()) return absl::StrCat(script, "_arguments", ZshArguments(app, "  "), "\n");
  absl::StrAppend(&script, "if (( CURRENT == 2 )); then\n  local -a commands=(");
  for (const CLI::App* command : commands) {
    absl::StrAppend(&script, "\n    '", command->get_name(), ":", ZshText(Describe(*command).text),
                    "'");
  }
  absl::StrAppend(
      &script, ")\n  _describe command commands\n  _arguments", ZshArguments(app, "    "),
      "\n  return\nfi\nlocal command=$words[2]\nshift words; (( CURRENT-- ))\ncase $command in\n");
  for (const CLI::App* command : commands) {
    absl::StrAppend(&script, "  ", command->get_name(), ") _arguments",
                    ZshArguments(*command, "    "), " ;;\n");
  }
  if (TakesWords(app)) {
    absl::StrAppend(&script, "  *) _arguments", ZshArguments(app, "    "), " ;;\n");
  }
  return script + "esac\n";
}

void AppendFish(const std::string& program, const std::string& condition, const CLI::App& app,
                std::string* script) {
  for (const DescribedOption& option : OptionsOf(app)) {
    if (option.names.empty()) continue;
    absl::StrAppend(script, "complete -c ", program, condition);
    for (const std::string& name : option.names) {
      absl::StrAppend(
          script, absl::StartsWith(name, "--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
    }
    if (!option.value.empty()) absl::StrAppend(script, " -r");
    if (!option.choices.empty())
      absl::StrAppend(script, " -f -a '", absl::StrJoin(option.choices, " "), "'");
    absl::StrAppend(script, " -d '",
                    absl::StrReplaceAll(option.text, {{"\\", "\\\\"}, {"'", "\\'"}, {"\n", " "}}),
                    "'\n");
  }
}

std::string Fish(const CLI::App& app) {
  const std::string& program = app.get_name();
  std::string script, condition;
  if (TakesWords(app) && !CommandsOf(app).empty()) {
    condition = absl::StrCat(" -n 'not __fish_seen_subcommand_from ",
                             absl::StrJoin(CommandNames(app), " "), "'");
  } else if (!CommandsOf(app).empty()) {
    condition = " -n __fish_use_subcommand";
  }
  AppendFish(program, condition, app, &script);
  for (const CLI::App* command : CommandsOf(app)) {
    absl::StrAppend(&script, "complete -c ", program, TakesWords(app) ? "" : " -f",
                    " -n __fish_use_subcommand -a ", command->get_name(), " -d '",
                    absl::StrReplaceAll(Describe(*command).text, {{"'", "\\'"}}), "'\n");
    AppendFish(program, absl::StrCat(" -n '__fish_seen_subcommand_from ", command->get_name(), "'"),
               *command, &script);
  }
  return script;
}

}  // namespace

std::string CompletionOf(const CLI::App& app, absl::string_view shell) {
  if (shell == "bash") return Bash(app);
  return shell == "zsh" ? Zsh(app) : Fish(app);
}

}  // namespace psgd
