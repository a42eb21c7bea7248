#include "experiment/config/config_yaml.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "experiment/config/config_reader.h"
#include "experiment/config/other_names.h"
#include "experiment/config/parse_value.h"
#include "experiment/config/schema.h"
#include "experiment/config/yaml_tree.h"
#include "proto/local_steps.h"

namespace psgd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Adds a note for each choice that two configs make in different ways. `path`: of the messages.
void NoteReplacedChoices(const Message& file, const Message& now, const std::string& path,
                         std::vector<std::string>* notes) {
  const Descriptor& type = *file.GetDescriptor();
  const Reflection* reflection = file.GetReflection();
  const auto name = [&](const FieldDescriptor& field) {
    return absl::StrCat(path, path.empty() ? "" : ".", field.name());
  };
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    const FieldDescriptor* before = reflection->GetOneofFieldDescriptor(file, type.oneof_decl(i));
    const FieldDescriptor* after = reflection->GetOneofFieldDescriptor(now, type.oneof_decl(i));
    if (before == nullptr || after == nullptr || before == after) continue;
    notes->push_back(absl::StrCat("--set chooses ", name(*after), ": the file's ", name(*before),
                                  " does not count"));
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated() || !IsSection(field) || !reflection->HasField(file, &field) ||
        !reflection->HasField(now, &field))
      continue;
    NoteReplacedChoices(reflection->GetMessage(file, &field), reflection->GetMessage(now, &field),
                        name(field), notes);
  }
}

// `optimizer` was the workers' until `local` was added.
void NoteOuterOptimizer(const Config& config, std::vector<std::string>* notes) {
  if (!TakesLocalSteps(config.local())) return;
  const std::string outer = OptimizerOf(config);
  const double usual = SgdConfig().learning_rate();
  const std::string usual_text =
      NumberInUnit(*SgdConfig::descriptor()->FindFieldByName("learning_rate"), usual);
  const bool trains = config.model().has_client() ||
                      config.local().optimizer().kind_case() != OptimizerConfig::KIND_NOT_SET;
  if (!trains && (outer == "sgd" || outer == "adagrad" || outer == "adam" || outer == "adamw")) {
    notes->push_back(absl::StrCat(
        "with local.steps, workers train with local.optimizer, which is not set (sgd ", usual_text,
        "), and optimizer: ", outer,
        " applies their changes: if it is meant for the workers, move it to local.optimizer"));
  } else if (outer == "sgd" && !config.optimizer().sgd().has_learning_rate()) {
    notes->push_back(absl::StrCat(
        "optimizer.sgd.learning_rate is not set (", usual_text,
        "), and with local.steps each exchange moves the shards' weights by ", 100 * usual,
        " % of the mean weight change (momentum adds to it): set it, as 0.7"));
  }
}

// A program's segment is an epoch, unless the config sets it.
void NoteLateSpeeds(const Config& config, std::vector<std::string>* notes) {
  if (!config.model().has_client() || config.local().steps() != 0 ||
      config.cluster().has_segment()) {
    return;
  }
  notes->emplace_back(
      "local.steps: auto compares the workers' speeds between two segments, and with model: client "
      "a segment is an epoch, so in the first epoch all workers take local.most steps: set "
      "cluster.segment, as 16");
}

}  // namespace

absl::StatusOr<Config> LoadConfig(const std::string& path, const std::vector<std::string>& set,
                                  std::vector<std::string>* notes) {
  absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxYamlBytes);
  if (absl::IsNotFound(text.status())) return Annotate(text.status(), "config");
  // Any other read error is the user's fault too: the user gave this name.
  if (!text.ok()) {
    return InvalidArgumentError("config: ", text.status().message());
  }
  return ParseConfig(*std::move(text), path, set, notes);
}

absl::StatusOr<Config> ParseConfig(std::string text, std::string name_for_errors,
                                   const std::vector<std::string>& set,
                                   std::vector<std::string>* notes) {
  const YamlSource source{std::move(name_for_errors), std::move(text)};
  PSGD_ASSIGN_OR_RETURN(const YamlTree tree, ParseYaml(source));
  Config config;
  std::set<std::string> given;
  for (const std::string& assignment : set)
    given.insert(assignment.substr(0, assignment.find('=')));
  ConfigReader reader(source, tree);
  reader.LeaveOut(std::move(given));
  std::vector<std::string> problems;
  const auto note = [&](const absl::Status& read) {
    if (!read.ok()) problems.emplace_back(read.message());
  };
  note(reader.ReadSection(tree.root, "", &config));
  const Config of_file = config;
  for (const std::string& assignment : set) note(ApplySet(assignment, &config));
  if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  if (notes != nullptr) {
    NoteReplacedChoices(of_file, config, "", notes);
    NoteOuterOptimizer(config, notes);
    NoteLateSpeeds(config, notes);
  }
  return config;
}

absl::Status ApplySet(const std::string& assignment, Config* config) {
  constexpr size_t kShown = 80;
  const std::string name =
      absl::StrCat("--set ", assignment.substr(0, kShown), assignment.size() > kShown ? "..." : "");
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return InvalidArgumentError(name, ": expected key=value, as train.epochs=2");
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
        return InvalidArgumentError(walked, " is a list; give it whole, as ", walked, "=[a, b]");
      }
      if (!IsSection(*place.field)) {
        return InvalidArgumentError(walked, " is a single value; it has no key \"", key, "\"");
      }
      place.message = place.message->GetReflection()->MutableMessage(place.message, place.field);
    }
    const auto& type = *place.message->GetDescriptor();
    place.field = type.FindFieldByName(std::string(key));
    if (place.field == nullptr) {
      const auto* config = dynamic_cast<const Config*>(root);
      return absl::InvalidArgumentError(
          UnknownKey(key, walked, type, config == nullptr ? "" : OptimizerOf(*config)));
    }
    absl::StrAppend(&walked, walked.empty() ? "" : ".", key);
  }
  return place;
}

}  // namespace psgd
