// A YAML tree onto a message of the schema.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "common/status.h"
#include "experiment/config/yaml_tree.h"

namespace psgd {

// Reads one tree. Not thread-safe. The source and the tree must outlive it.
class ConfigReader {
 public:
  // What reads fields that are written in a way of their own: asked first, for the node of the
  // field, its path, and the message it is in. Nothing: it is none of those.
  using OwnWay = std::function<std::optional<absl::Status>(
      uint32_t node, const std::string& path, const google::protobuf::FieldDescriptor& field,
      google::protobuf::Message* message)>;

  ConfigReader(const YamlSource& source, const YamlTree& tree, OwnWay own_way = nullptr)
      : source_(source), tree_(tree), own_way_(std::move(own_way)) {}

  // The node's keys into `message`, which is known as `path` ("compression.push"; "" for the
  // whole).
  absl::Status ReadSection(uint32_t node, const std::string& path,
                           google::protobuf::Message* message);

  // The node into one field, known as `path`. Nothing given leaves a value unset, a section with
  // its defaults.
  absl::Status ReadField(uint32_t node, const std::string& path,
                         const google::protobuf::FieldDescriptor& field,
                         google::protobuf::Message* message);

 private:
  absl::Status ReadKeys(const YamlNode& map, const std::string& path,
                        google::protobuf::Message* message);
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
  size_t visited_ = 0;  // nodes, aliases counted each time: bounds what they can multiply to
};

// `unknown key "x" in a.b; did you mean "y"?`, or with all the keys that there are.
std::string UnknownKey(absl::string_view key, const std::string& path,
                       const google::protobuf::Descriptor& type);

}  // namespace psgd
