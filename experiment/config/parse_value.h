// Single values from YAML text into a field of the schema: numbers, words, lengths, choices.
#pragma once

#include <google/protobuf/message.h>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// Sets the field, or adds to a list, the value written as `text`, which must be right to its last
// letter. The error says what was expected; the caller says where. REQUIRES: the field is no
// section.
absl::Status ParseValue(const google::protobuf::FieldDescriptor& field, absl::string_view text,
                        bool quoted, google::protobuf::Message* message);

}  // namespace psgd
