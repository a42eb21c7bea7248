// A YAML tree onto a message of the schema.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "common/status.h"
#include "experiment/yaml_tree.h"

namespace psgd {

// Reads one tree. Not thread-safe. The source and the tree must outlive it.
class ConfigReader {
 public:
  ConfigReader(const YamlSource& source, const YamlTree& tree) : source_(source), tree_(tree) {}

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
  absl::Status ReadWord(uint32_t node, const std::string& path,
                        google::protobuf::Message* message);
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
  size_t visited_ = 0;  // nodes, aliases counted each time: bounds what they can multiply to
};

// `unknown key "x" in a.b; did you mean "y"?`, or with all the keys that there are.
std::string UnknownKey(absl::string_view key, const std::string& path,
                       const google::protobuf::Descriptor& type);

}  // namespace psgd
