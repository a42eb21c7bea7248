// Single values of the schema as the text that ParseValue reads back exactly.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace psgd {

// `index` within a list, -1 for a single value; a value that is not set gives its default.
// REQUIRES: the field is no section.
std::string FormatValue(const google::protobuf::Message& message,
                        const google::protobuf::FieldDescriptor& field, int index);

}  // namespace psgd
