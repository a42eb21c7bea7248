// Reads a YAML tree into a message of the schema.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/status.h"
#include "experiment/config/mistakes.h"
#include "experiment/config/yaml_tree.h"

namespace psgd {

// Reads one tree. Not thread-safe. The source and the tree must outlive the reader.
class ConfigReader {
 public:
  // Reads fields that have a syntax of their own. ReadField calls this first, with the field's
  // node, its path and its message. Returns nothing if the field has no such syntax.
  using OwnWay = std::function<std::optional<absl::Status>(
      uint32_t node, const std::string& path, const google::protobuf::FieldDescriptor& field,
      google::protobuf::Message* message)>;

  ConfigReader(const YamlSource& source, const YamlTree& tree, OwnWay own_way = nullptr)
      : source_(source), tree_(tree), own_way_(std::move(own_way)) {}

  // Leaves out these keys, as "train.epochs": something else gives their values.
  void LeaveOut(std::set<std::string> keys) { left_out_ = std::move(keys); }

  // Reads the node's keys into `message`. `path` names the message in errors ("compression.push";
  // "" for the whole config).
  absl::Status ReadSection(uint32_t node, const std::string& path,
                           google::protobuf::Message* message);

  // Reads the node into one field; `path` names the field in errors. A null node leaves a value
  // unset and gives a section its defaults.
  absl::Status ReadField(uint32_t node, const std::string& path,
                         const google::protobuf::FieldDescriptor& field,
                         google::protobuf::Message* message);

 private:
  // The keys of a section so far.
  struct GivenKeys {
    const std::string& path;
    const google::protobuf::Descriptor* type;
    std::map<const google::protobuf::FieldDescriptor*, const YamlNode*> keys;
    std::map<const google::protobuf::OneofDescriptor*, const google::protobuf::FieldDescriptor*>
        choices;
  };

  // An error names every wrong key or item, each in a line of its own.
  absl::Status ReadKeys(const YamlNode& map, const std::string& path,
                        google::protobuf::Message* message);
  // Stops where aliases make too much.
  void Note(const absl::Status& read, Mistakes* mistakes) const;
  // The field of a key, which must be new; null: the key is skipped.
  absl::StatusOr<const google::protobuf::FieldDescriptor*> FieldOf(const YamlNode& key,
                                                                   const YamlNode& value,
                                                                   GivenKeys* given) const;
  // The optimizer that the config of the tree chooses; empty: none.
  std::string Optimizer() const;
  absl::Status ReadWord(uint32_t node, const std::string& path, google::protobuf::Message* message);
  absl::Status ReadList(const YamlNode& list, const std::string& path,
                        const google::protobuf::FieldDescriptor& field,
                        google::protobuf::Message* message);
  absl::Status ReadScalar(const YamlNode& node, const std::string& path,
                          const google::protobuf::FieldDescriptor& field,
                          google::protobuf::Message* message);
  absl::Status Error(const YamlNode& node, const std::string& path,
                     absl::string_view message) const;

  const YamlSource& source_;
  const YamlTree& tree_;
  const OwnWay own_way_;
  std::set<std::string> left_out_;
  const YamlNode* config_ = nullptr;  // the mapping of the whole config, once it is read
  size_t visited_ = 0;  // nodes read; aliases count each time, so their expansion is bounded
};

// Returns `unknown key "x" in a.b; did you mean "y"?`, or lists all keys of the section.
// `optimizer`: the one that the config chooses; empty: none.
std::string UnknownKey(absl::string_view key, const std::string& path,
                       const google::protobuf::Descriptor& type, absl::string_view optimizer);

}  // namespace psgd
