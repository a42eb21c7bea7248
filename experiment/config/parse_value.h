// Parses single YAML values into a field of the schema: numbers, words, lengths, choices.
#pragma once

#include <google/protobuf/message.h>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// Sets the field to the value in `text`, or appends that value to a list. The whole of `text` must
// be valid. The error says what was expected; the caller adds the position.
// REQUIRES: the field is not a section.
absl::Status ParseValue(const google::protobuf::FieldDescriptor& field, absl::string_view text,
                        bool quoted, google::protobuf::Message* message);

}  // namespace psgd
