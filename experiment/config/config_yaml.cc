#include "experiment/config/config_yaml.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "experiment/config/config_reader.h"
#include "experiment/config/parse_value.h"
#include "experiment/config/schema.h"
#include "experiment/config/yaml_tree.h"

namespace psgd {
namespace {

using google::protobuf::FieldDescriptor;

}  // namespace

absl::StatusOr<Config> LoadConfig(const std::string& path, const std::vector<std::string>& set) {
  absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxYamlBytes);
  if (absl::IsNotFound(text.status())) return Annotate(text.status(), "config");
  // Any other read error is the user's fault too: the user gave this name.
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("config: ", text.status().message()));
  }
  return ParseConfig(*std::move(text), path, set);
}

absl::StatusOr<Config> ParseConfig(std::string text, std::string name_for_errors,
                                   const std::vector<std::string>& set) {
  const YamlSource source{std::move(name_for_errors), std::move(text)};
  PSGD_ASSIGN_OR_RETURN(const YamlTree tree, ParseYaml(source));
  Config config;
  std::set<std::string> given;
  for (const std::string& assignment : set)
    given.insert(assignment.substr(0, assignment.find('=')));
  ConfigReader reader(source, tree);
  reader.LeaveOut(std::move(given));
  PSGD_RETURN_IF_ERROR(reader.ReadSection(tree.root, "", &config));
  for (const std::string& assignment : set) PSGD_RETURN_IF_ERROR(ApplySet(assignment, &config));
  return config;
}

absl::Status ApplySet(const std::string& assignment, Config* config) {
  constexpr size_t kShown = 80;
  const std::string name =
      absl::StrCat("--set ", assignment.substr(0, kShown), assignment.size() > kShown ? "..." : "");
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected key=value, as train.epochs=2"));
  }
  const std::string path = assignment.substr(0, equals);

  Config changed = *config;
  const absl::StatusOr<ConfigKey> place = FindConfigKey(path, &changed);
  if (!place.ok()) return Annotate(place.status(), name);
  PSGD_RETURN_IF_ERROR(SetKey(name, path, assignment.substr(equals + 1), *place));
  config->Swap(&changed);
  return absl::OkStatus();
}

absl::Status SetKey(const std::string& name, const std::string& path, const std::string& value,
                    const ConfigKey& place) {
  const YamlSource source{name, value, /*with_position=*/false};
  place.message->GetReflection()->ClearField(place.message, place.field);
  const bool verbatim =
      place.field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !place.field->is_repeated();
  if (verbatim) {
    const absl::Status status = ParseValue(*place.field, source.text, false, place.message);
    return status.ok() ? status : source.ErrorAt({}, absl::StrCat(path, ": ", status.message()));
  }
  PSGD_ASSIGN_OR_RETURN(const YamlTree tree, ParseYaml(source));
  return ConfigReader(source, tree).ReadField(tree.root, path, *place.field, place.message);
}

absl::StatusOr<ConfigKey> FindConfigKey(const std::string& path, google::protobuf::Message* root) {
  ConfigKey place{root, nullptr};
  std::string walked;
  for (const absl::string_view key : absl::StrSplit(path, '.')) {
    if (place.field != nullptr) {
      if (place.field->is_repeated()) {
        return absl::InvalidArgumentError(
            absl::StrCat(walked, " is a list; give it whole, as ", walked, "=[a, b]"));
      }
      if (!IsSection(*place.field)) {
        return absl::InvalidArgumentError(
            absl::StrCat(walked, " is a single value; it has no key \"", key, "\""));
      }
      place.message = place.message->GetReflection()->MutableMessage(place.message, place.field);
    }
    const auto& type = *place.message->GetDescriptor();
    place.field = type.FindFieldByName(std::string(key));
    if (place.field == nullptr) {
      return absl::InvalidArgumentError(UnknownKey(key, walked, type));
    }
    absl::StrAppend(&walked, walked.empty() ? "" : ".", key);
  }
  return place;
}

}  // namespace psgd
