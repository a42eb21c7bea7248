#include "experiment/plan/sweep_yaml.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "experiment/config/config_reader.h"
#include "experiment/config/mistakes.h"
#include "experiment/config/parse_value.h"
#include "experiment/config/yaml_tree.h"
#include "experiment/plan/expand.h"

namespace psgd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kLaunch[] = "launch.";

// Inside brackets, text that YAML could misread needs quotes.
std::string Scalar(const YamlNode& node) {
  const bool plain = !node.quoted && !node.text.empty() &&
                     node.text.find_first_of(",[]{}:#\"'\n&*!|>%@`") == std::string::npos;
  if (plain) return node.text;
  return absl::StrCat("\"", absl::StrReplaceAll(node.text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

void AppendFlow(const YamlTree& tree, uint32_t index, std::string* text) {
  const YamlNode& node = tree.nodes[index];
  switch (node.kind) {
    case YamlNode::kNull:
      absl::StrAppend(text, "null");
      return;
    case YamlNode::kScalar:
      absl::StrAppend(text, Scalar(node));
      return;
    case YamlNode::kList:
      absl::StrAppend(text, "[");
      for (size_t i = 0; i < node.children.size(); ++i) {
        absl::StrAppend(text, i == 0 ? "" : ", ");
        AppendFlow(tree, node.children[i], text);
      }
      absl::StrAppend(text, "]");
      return;
    case YamlNode::kMap:
      absl::StrAppend(text, "{");
      for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
        absl::StrAppend(text, i == 0 ? "" : ", ");
        AppendFlow(tree, node.children[i], text);
        absl::StrAppend(text, ": ");
        AppendFlow(tree, node.children[i + 1], text);
      }
      absl::StrAppend(text, "}");
      return;
  }
}

// Writes part of a tree as one line, in the form of `--set key=VALUE`.
std::string FlowYaml(const YamlTree& tree, uint32_t node) {
  // --set takes a string literally.
  if (tree.nodes[node].kind == YamlNode::kScalar) return tree.nodes[node].text;
  std::string text;
  AppendFlow(tree, node, &text);
  return text;
}

// Programs take the last of an option that is given twice.
void SetOption(const std::string& option, const std::string& value,
               google::protobuf::RepeatedPtrField<std::string>* command) {
  const std::string joined = absl::StrCat(option, "=");
  for (int i = command->size() - 1; i > 0; --i) {
    if (absl::StartsWith(command->at(i), joined)) {
      command->at(i) = absl::StrCat(joined, value);
      return;
    }
    if (command->at(i) == option && i + 1 < command->size()) {
      command->at(i + 1) = value;
      return;
    }
  }
  *command->Add() = option;
  *command->Add() = value;
}

// Reads the parts of a sweep whose keys are a config's keys.
class SweepReader {
 public:
  explicit SweepReader(YamlSource source) : source_(std::move(source)) {}

  absl::StatusOr<Sweep> Read() {
    PSGD_ASSIGN_OR_RETURN(tree_, ParseYaml(source_));
    Sweep sweep;
    PSGD_RETURN_IF_ERROR(Reader().ReadSection(tree_.root, "", &sweep));
    return sweep;
  }

 private:
  ConfigReader Reader() {
    return ConfigReader(source_, tree_,
                        [this](uint32_t node, const std::string& path, const FieldDescriptor& field,
                               Message* message) { return OwnWay(node, path, field, message); });
  }

  absl::Status Error(uint32_t node, absl::string_view message) const {
    return source_.ErrorAt(tree_.nodes[node].mark, message);
  }

  std::optional<absl::Status> OwnWay(uint32_t node, const std::string& path,
                                     const FieldDescriptor& field, Message* message) {
    auto* sweep = dynamic_cast<Sweep*>(message);
    switch (sweep != nullptr ? field.number() : 0) {
      case Sweep::kBaseFieldNumber:
        return ReadBase(node, path, sweep->mutable_base());
      case Sweep::kGridFieldNumber:
        return ReadGrid(node, path, sweep);
      case Sweep::kListFieldNumber:
        return ReadVariants(node, path, sweep);
    }
    if (auto* random = dynamic_cast<SweepRandom*>(message);
        random != nullptr && field.number() == SweepRandom::kKeysFieldNumber) {
      return ReadDraws(node, path, random);
    }
    if (auto* draw = dynamic_cast<SweepDraw*>(message)) {
      if (field.number() == SweepDraw::kKeyFieldNumber) {
        return Error(node, absl::StrCat(path, ": write uniform, log_uniform or choice"));
      }
      if (field.number() == SweepDraw::kChoiceFieldNumber) {
        return ReadValues(node, draw->key(), path, draw->mutable_choice());
      }
    }
    return std::nullopt;
  }

  absl::Status ReadBase(uint32_t node, const std::string& path, SweepBase* base) {
    if (tree_.nodes[node].kind == YamlNode::kScalar) {
      base->set_file(tree_.nodes[node].text);
      return absl::OkStatus();
    }
    return Reader().ReadSection(node, path, base->mutable_config());
  }

  absl::Status ExpectMap(uint32_t node, const std::string& path) const {
    if (tree_.nodes[node].kind == YamlNode::kMap) return absl::OkStatus();
    return Error(node, absl::StrCat(path,
                                    ": expected a mapping from keys of a config, as "
                                    "consistency.staleness, to values"));
  }

  // Calls `read` with each key, its node and the node of its value. `part` names the map in errors.
  template <typename Read>
  absl::Status ForEachKey(uint32_t node, const std::string& part, Read read) const {
    const std::vector<uint32_t>& children = tree_.nodes[node].children;
    std::set<std::string> given;
    Mistakes mistakes;
    for (size_t i = 0; i + 1 < children.size() && !mistakes.stopped(); i += 2) {
      const std::string& key = tree_.nodes[children[i]].text;
      mistakes.Add(given.insert(key).second
                       ? read(key, children[i], children[i + 1])
                       : Error(children[i], absl::StrCat("duplicate key \"", key, "\" in ", part)));
    }
    return mistakes.status();
  }

  absl::Status ReadGrid(uint32_t node, const std::string& path, Sweep* sweep) {
    PSGD_RETURN_IF_ERROR(ExpectMap(node, path));
    return ForEachKey(node, path, [&](const std::string& key, uint32_t at, uint32_t values) {
      PSGD_RETURN_IF_ERROR(CheckKey(at, key, path));
      SweepAxis* axis = sweep->add_grid();
      axis->set_key(key);
      return ReadValues(values, key, absl::StrCat(path, ".", key), axis->mutable_values());
    });
  }

  absl::Status ReadVariants(uint32_t node, const std::string& path, Sweep* sweep) {
    if (tree_.nodes[node].kind != YamlNode::kList) {
      return Error(node, absl::StrCat(path,
                                      ": expected a list of mappings, as "
                                      "- {name: dense, compression.push: none}"));
    }
    Mistakes mistakes;
    for (const uint32_t item : tree_.nodes[node].children) {
      mistakes.Add(ReadVariant(item, path, sweep->add_list()));
      if (mistakes.stopped()) break;
    }
    return mistakes.status();
  }

  absl::Status ReadVariant(uint32_t item, const std::string& path, SweepVariant* variant) {
    PSGD_RETURN_IF_ERROR(ExpectMap(item, path));
    PSGD_RETURN_IF_ERROR(ForEachKey(
        item, absl::StrCat("an entry of ", path),
        [&](const std::string& key, uint32_t at, uint32_t value) -> absl::Status {
          if (key == "name") {
            return Reader().ReadField(value, absl::StrCat(path, ".name"),
                                      *SweepVariant::descriptor()->FindFieldByName("name"),
                                      variant);
          }
          PSGD_RETURN_IF_ERROR(CheckKey(at, key, path));
          SweepSetting* setting = variant->add_settings();
          setting->set_key(key);
          PSGD_ASSIGN_OR_RETURN(*setting->mutable_value(), ReadValue(value, key));
          return absl::OkStatus();
        }));
    const auto [other, is_new] = names_.emplace(NameOf(*variant), tree_.nodes[item].mark.line + 1);
    if (is_new) return absl::OkStatus();
    return Error(item,
                 absl::StrCat("two entries of ", path, " are called \"", other->first,
                              "\", the other one in line ", other->second,
                              ": reports could not tell them apart; give each a name of its own"));
  }

  absl::Status ReadDraws(uint32_t node, const std::string& path, SweepRandom* random) {
    PSGD_RETURN_IF_ERROR(ExpectMap(node, path));
    return ForEachKey(node, path, [&](const std::string& key, uint32_t at, uint32_t value) {
      PSGD_RETURN_IF_ERROR(CheckKey(at, key, path));
      SweepDraw* draw = random->add_keys();
      draw->set_key(key);
      const std::string here = absl::StrCat(path, ".", key);
      PSGD_RETURN_IF_ERROR(Reader().ReadSection(value, here, draw));
      return CheckDraw(value, here, *draw);
    });
  }

  absl::Status CheckDraw(uint32_t node, const std::string& path, const SweepDraw& draw) const {
    const int ways =
        (draw.uniform_size() > 0) + (draw.log_uniform_size() > 0) + (draw.choice_size() > 0);
    if (ways != 1) {
      return Error(node, absl::StrCat(path,
                                      ": expected one of uniform: [low, high], "
                                      "log_uniform: [low, high], choice: [value, ...]"));
    }
    if (draw.choice_size() > 0) return absl::OkStatus();
    const auto& range = draw.uniform_size() > 0 ? draw.uniform() : draw.log_uniform();
    if (range.size() != 2 || range[0] >= range[1]) {
      return Error(node, absl::StrCat(path, ": expected two numbers, the lower one first"));
    }
    if (draw.log_uniform_size() > 0 && range[0] <= 0) {
      return Error(node, absl::StrCat(path, ": log_uniform needs numbers above 0"));
    }
    Config config;
    SweepLaunch launch;
    for (const double bound : range) {
      if (IsOption(draw.key())) break;  // only the program knows
      const absl::Status fits = ApplySetting(draw.key(), absl::StrCat(bound), &config, &launch);
      if (!fits.ok()) return Error(node, fits.message());
    }
    return absl::OkStatus();
  }

  // Checks a key of grid, list or random. If two parts set one key, one would overwrite the other
  // and the runs' names would be wrong.
  absl::Status CheckKey(uint32_t node, const std::string& key, const std::string& part) {
    Config config;
    SweepLaunch launch;
    const absl::StatusOr<ConfigKey> found = FindSetting(key, &config, &launch);
    if (!found.ok()) return Error(node, found.status().message());
    if (found->message == &config && found->field->number() == Config::kNameFieldNumber) {
      return Error(node, "the name of a run is given by the sweep");
    }
    if (found->message == &config && found->field->number() == Config::kSeedFieldNumber) {
      return Error(node,
                   "seeds are given by repeat: {seeds: N}, so that reports know what to average");
    }
    const auto [place, is_new] =
        parts_.emplace(key, std::pair(part, tree_.nodes[node].mark.line + 1));
    const auto& [other, line] = place->second;
    if (is_new || other == part) return absl::OkStatus();
    return Error(node, absl::StrCat(key, " is set in ", other, ", too, in line ", line,
                                    ": one would overwrite the other; leave it in one of them"));
  }

  absl::StatusOr<std::string> ReadValue(uint32_t node, const std::string& key) const {
    Config config;
    SweepLaunch launch;
    PSGD_ASSIGN_OR_RETURN(const ConfigKey place, FindSetting(key, &config, &launch));
    if (IsOption(key)) {
      const YamlNode& word = tree_.nodes[node];
      if (word.kind != YamlNode::kScalar) {
        return Error(node, absl::StrCat(key, ": expected a single value, the option's argument"));
      }
      const absl::Status fits = ParseValue(*place.field, word.text, word.quoted, place.message);
      return fits.ok() ? absl::StatusOr<std::string>(word.text) : Error(node, fits.message());
    }
    PSGD_RETURN_IF_ERROR(
        ConfigReader(source_, tree_).ReadField(node, key, *place.field, place.message));
    return FlowYaml(tree_, node);
  }

  absl::Status ReadValues(uint32_t node, const std::string& key, const std::string& path,
                          google::protobuf::RepeatedPtrField<std::string>* values) const {
    const YamlNode& list = tree_.nodes[node];
    if (list.kind != YamlNode::kList || list.children.empty()) {
      return Error(node, absl::StrCat(path, ": expected a list of values, as [a, b]"));
    }
    Mistakes mistakes;
    for (const uint32_t item : list.children) {
      absl::StatusOr<std::string> value = ReadValue(item, key);
      mistakes.Add(value.status());
      if (mistakes.stopped()) break;
      if (value.ok()) *values->Add() = *std::move(value);
    }
    return mistakes.status();
  }

  const YamlSource source_;
  YamlTree tree_;
  std::map<std::string, std::pair<std::string, int>>
      parts_;                         // by key: the part where it is set first, and the line
  std::map<std::string, int> names_;  // by name of a list entry: its line
};

}  // namespace

absl::StatusOr<Sweep> ParseSweep(std::string text, std::string name_for_errors) {
  return SweepReader({std::move(name_for_errors), std::move(text)}).Read();
}

absl::StatusOr<Sweep> LoadSweep(const std::string& path) {
  absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxYamlBytes);
  if (absl::IsNotFound(text.status())) return Annotate(text.status(), "sweep");
  if (!text.ok()) return InvalidArgumentError("sweep: ", text.status().message());
  return ParseSweep(*std::move(text), path);
}

bool IsOption(const std::string& key) { return absl::StartsWith(key, "-"); }

absl::StatusOr<ConfigKey> FindSetting(const std::string& key, Config* config, SweepLaunch* launch) {
  if (IsOption(key)) {
    if (key.find_first_of(" =") == std::string::npos && key.find_first_not_of('-') != key.npos)
      return FindConfigKey("command", launch);
    return InvalidArgumentError("\"", key,
                                "\" is no option of a command; write --lr: [0.1, 0.01] for "
                                "--lr 0.1 and --lr 0.01");
  }
  if (!absl::StartsWith(key, kLaunch)) return FindConfigKey(key, config);
  absl::StatusOr<ConfigKey> found =
      FindConfigKey(std::string(absl::StripPrefix(key, kLaunch)), launch);
  return found.ok() ? found : Annotate(found.status(), "launch");
}

absl::Status ApplySetting(const std::string& key, const std::string& value, Config* config,
                          SweepLaunch* launch) {
  if (IsOption(key)) {
    SetOption(key, value, launch->mutable_command());
    return absl::OkStatus();
  }
  const std::string assignment = absl::StrCat(key, "=", value);
  if (!absl::StartsWith(key, kLaunch)) return ApplySet(assignment, config);
  PSGD_ASSIGN_OR_RETURN(const ConfigKey place, FindSetting(key, config, launch));
  return SetKey(assignment, key, value, place);
}

}  // namespace psgd
