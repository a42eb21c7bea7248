// A dotted path such as compression.push.topk.density to the field that it names.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "common/status.h"

namespace psgd {

// The message that holds the key, and its field there.
struct ConfigKey {
  google::protobuf::Message* message = nullptr;
  const google::protobuf::FieldDescriptor* field = nullptr;
};

// Makes the sections on the way, in `root`. An unknown key is an error with what was probably
// meant.
absl::StatusOr<ConfigKey> FindConfigKey(const std::string& path, google::protobuf::Message* root);

}  // namespace psgd
