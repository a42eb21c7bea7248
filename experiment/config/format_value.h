// Writes single values of the schema as text that ParseValue reads back exactly.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace psgd {

// `index` is a place in a list, or -1 for a single value. An unset value gives its default.
// REQUIRES: the field is not a section.
std::string FormatValue(const google::protobuf::Message& message,
                        const google::protobuf::FieldDescriptor& field, int index);

}  // namespace psgd
