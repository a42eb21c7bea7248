// Finds the field that a dotted path, such as compression.push.topk.density, names.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "common/status.h"

namespace psgd {

// The message that holds the key, and the key's field in that message.
struct ConfigKey {
  google::protobuf::Message* message = nullptr;
  const google::protobuf::FieldDescriptor* field = nullptr;
};

// Creates the sections along the path in `root`. An unknown key is an error that suggests a similar
// key.
absl::StatusOr<ConfigKey> FindConfigKey(const std::string& path, google::protobuf::Message* root);

}  // namespace psgd
