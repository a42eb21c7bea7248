#include "experiment/config/config_reader.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/suggest.h"
#include "common/utf8.h"
#include "experiment/config/other_names.h"
#include "experiment/config/parse_value.h"
#include "experiment/config/schema.h"
#include "proto/config.pb.h"

namespace psgd {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

namespace {

constexpr size_t kMaxVisited = 2 * kMaxYamlNodes;

std::string Join(const std::string& path, absl::string_view key) {
  return path.empty() ? std::string(key) : absl::StrCat(path, ".", key);
}

// The whole config is named by its type: "config".
std::string SectionName(const std::string& path, const Descriptor& type) {
  return path.empty() ? absl::AsciiStrToLower(type.name()) : path;
}

// Describes a section, for an error about something else in its place.
std::string SectionForm(const Descriptor& type) {
  return absl::StrCat("a mapping with keys of ", absl::StrJoin(KeysOf(type), ", "));
}

std::string What(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::kNull:
      return "nothing";
    case YamlNode::kList:
      return "a list";
    case YamlNode::kMap:
      return "a mapping";
    case YamlNode::kScalar:
      break;
  }
  return Quote(node.text);
}

}  // namespace

std::string UnknownKey(absl::string_view key, const std::string& path, const Descriptor& type,
                       absl::string_view optimizer) {
  const std::vector<std::string> keys = KeysOf(type);
  std::string hint = Suggest(key, keys);
  if (hint.empty()) hint = HintForOtherName(key, path, optimizer);
  if (hint.empty()) {
    hint =
        keys.empty() ? "; it has none" : absl::StrCat("; its keys are ", absl::StrJoin(keys, ", "));
  }
  return absl::StrCat("unknown key ", Quote(key), " in ", SectionName(path, type), hint);
}

absl::Status ConfigReader::Error(const YamlNode& node, const std::string& path,
                                 absl::string_view message) const {
  return source_.ErrorAt(node.mark,
                         path.empty() ? std::string(message) : absl::StrCat(path, ": ", message));
}

absl::Status ConfigReader::ReadSection(uint32_t index, const std::string& path, Message* message) {
  const YamlNode& node = tree_.nodes[index];
  switch (node.kind) {
    case YamlNode::kNull:
      return absl::OkStatus();
    case YamlNode::kMap:
      return ReadKeys(node, path, message);
    case YamlNode::kScalar:
      return ReadWord(index, path, message);
    case YamlNode::kList:
      break;
  }
  return Error(node, path,
               absl::StrCat("expected ", SectionForm(*message->GetDescriptor()), ", got a list"));
}

std::string ConfigReader::Optimizer() const {
  if (config_ == nullptr) return "";
  const std::vector<std::string> optimizers = MembersOf(*OptimizerConfig::descriptor());
  for (size_t i = 0; i + 1 < config_->children.size(); i += 2) {
    if (tree_.nodes[config_->children[i]].text != "optimizer") continue;
    const YamlNode& optimizer = tree_.nodes[config_->children[i + 1]];
    std::vector<std::string> words = {absl::AsciiStrToLower(optimizer.text)};
    for (size_t k = 0; k + 1 < optimizer.children.size(); k += 2) {
      words.push_back(tree_.nodes[optimizer.children[k]].text);
    }
    for (const std::string& word : words) {
      if (std::ranges::count(optimizers, word) > 0) return word;
    }
  }
  return "";
}

absl::Status ConfigReader::ReadKeys(const YamlNode& map, const std::string& path,
                                    Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  if (&type == Config::descriptor()) config_ = &map;
  GivenKeys given{path, &type, {}, {}};
  Mistakes mistakes;
  for (size_t i = 0; i + 1 < map.children.size() && !mistakes.stopped(); i += 2) {
    const YamlNode& key = tree_.nodes[map.children[i]];
    const auto field = FieldOf(key, tree_.nodes[map.children[i + 1]], &given);
    absl::Status read = field.status();
    if (read.ok() && *field != nullptr && !left_out_.contains(Join(path, key.text))) {
      read = ReadField(map.children[i + 1], Join(path, key.text), **field, message);
    }
    Note(read, &mistakes);
  }
  return mistakes.status();
}

void ConfigReader::Note(const absl::Status& read, Mistakes* mistakes) const {
  mistakes->Add(read);
  if (!read.ok() && visited_ > kMaxVisited) mistakes->Stop();
}

absl::StatusOr<const FieldDescriptor*> ConfigReader::FieldOf(const YamlNode& key,
                                                             const YamlNode& value,
                                                             GivenKeys* given) const {
  const std::string& path = given->path;
  if (key.kind != YamlNode::kScalar) {
    return Error(key, path, absl::StrCat("a key must be a word, got ", What(key)));
  }
  // Configs of earlier versions contain this key with its default.
  if (path == "durability" && key.text == "followers") {
    if (value.text == "1") return nullptr;
    return Error(key, path,
                 "followers is cluster.copies by now: it counts all copies of a shard, the one "
                 "that leads included, so 2 followers are cluster.copies: 3");
  }
  const FieldDescriptor* field = given->type->FindFieldByName(key.text);
  if (field == nullptr) {
    return source_.ErrorAt(key.mark, UnknownKey(key.text, path, *given->type, Optimizer()));
  }
  const auto [first, is_new] = given->keys.emplace(field, &key);
  if (!is_new) {
    return Error(
        key, "",
        absl::StrCat("duplicate key \"", key.text, "\" in ", SectionName(path, *given->type),
                     "; first given in line ", first->second->mark.line + 1));
  }
  if (const OneofDescriptor* choice = field->real_containing_oneof()) {
    const auto [other, alone] = given->choices.emplace(choice, field);
    if (!alone) {
      return Error(key, path,
                   absl::StrCat("\"", other->second->name(), "\" and \"", key.text,
                                "\" exclude each other; keep one"));
    }
  }
  return field;
}

// Reads `push: topk` as `push: {topk: {}}`, and `compression: topk` as `compression: {push: topk}`.
absl::Status ConfigReader::ReadWord(uint32_t index, const std::string& path, Message* message) {
  const YamlNode& word = tree_.nodes[index];
  const Descriptor& type = *message->GetDescriptor();
  if (const FieldDescriptor* key = KeyOfWord(type)) {
    if (left_out_.contains(Join(path, key->name()))) return absl::OkStatus();
    return ReadField(index, Join(path, key->name()), *key, message);
  }
  const std::vector<std::string> members = MembersOf(type);
  if (members.empty()) {
    return Error(word, path, absl::StrCat("expected ", SectionForm(type), ", got ", What(word)));
  }
  for (const std::string& member : members) {
    if (!absl::EqualsIgnoreCase(member, word.text)) continue;
    message->GetReflection()->MutableMessage(message, type.FindFieldByName(member));
    return absl::OkStatus();
  }
  const std::string hint = HintForOtherValue(word.text, members);
  // The others of the choice take values, and may be meant.
  const OneofDescriptor* choice = type.FindFieldByName(members.front())->real_containing_oneof();
  if (choice->field_count() > static_cast<int>(members.size())) {
    return Error(word, path,
                 absl::StrCat("expected ", absl::StrJoin(members, ", "), " or ", SectionForm(type),
                              ", got ", What(word), hint));
  }
  return Error(word, path,
               absl::StrCat(What(word), " is not one of ", absl::StrJoin(members, ", "),
                            hint.empty() ? Suggest(word.text, members) : hint));
}

absl::Status ConfigReader::ReadField(uint32_t index, const std::string& path,
                                     const FieldDescriptor& field, Message* message) {
  const YamlNode& node = tree_.nodes[index];
  if (++visited_ > kMaxVisited) return Error(node, path, "too many values through aliases");
  if (own_way_) {
    if (const std::optional<absl::Status> read = own_way_(index, path, field, message))
      return *read;
  }
  if (field.is_repeated()) return ReadList(node, path, field, message);
  if (IsSection(field)) {
    return ReadSection(index, path, message->GetReflection()->MutableMessage(message, &field));
  }
  return node.kind == YamlNode::kNull ? absl::OkStatus() : ReadScalar(node, path, field, message);
}

absl::Status ConfigReader::ReadList(const YamlNode& list, const std::string& path,
                                    const FieldDescriptor& field, Message* message) {
  if (list.kind == YamlNode::kNull) return absl::OkStatus();
  if (list.kind == YamlNode::kScalar && IsListOfNames(field)) {
    return ReadScalar(list, path, field, message);
  }
  if (list.kind != YamlNode::kList) {
    return Error(list, path, absl::StrCat("expected a list, as [a, b], got ", What(list)));
  }
  Mistakes mistakes;
  for (size_t i = 0; i < list.children.size() && !mistakes.stopped(); ++i) {
    const std::string item_path = absl::StrCat(path, "[", i, "]");
    const YamlNode& item = tree_.nodes[list.children[i]];
    if (++visited_ > kMaxVisited) {
      Note(Error(item, path, "too many values through aliases"), &mistakes);
    } else if (IsSection(field)) {
      Note(ReadSection(list.children[i], item_path,
                       message->GetReflection()->AddMessage(message, &field)),
           &mistakes);
    } else {
      Note(ReadScalar(item, item_path, field, message), &mistakes);
    }
  }
  return mistakes.status();
}

absl::Status ConfigReader::ReadScalar(const YamlNode& node, const std::string& path,
                                      const FieldDescriptor& field, Message* message) {
  if (node.kind != YamlNode::kScalar) {
    return Error(node, path, absl::StrCat("expected a single value, got ", What(node)));
  }
  const absl::Status status = ParseValue(field, node.text, node.quoted, message);
  return status.ok() ? status : Error(node, path, status.message());
}

}  // namespace psgd
