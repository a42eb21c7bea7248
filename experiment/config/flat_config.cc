#include "experiment/config/flat_config.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiment/config/format_value.h"
#include "experiment/config/schema.h"

namespace psgd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string Values(const Message& message, const FieldDescriptor& field) {
  std::vector<std::string> values;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    values.push_back(FormatValue(message, field, i));
  }
  return absl::StrCat("[", absl::StrJoin(values, ", "), "]");
}

void Append(const Message& message, const std::string& prefix, bool with_defaults,
            FlatConfig* flat) {
  const auto* reflection = message.GetReflection();
  const auto& type = *message.GetDescriptor();
  const std::unique_ptr<Message> defaults(message.New());
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string key = prefix.empty() ? field.name() : absl::StrCat(prefix, ".", field.name());
    // Listed only if set.
    const bool never_given = (IsProgress(field) && !UsualLength(field)) || MayStayUnset(field);
    if (field.is_repeated()) {
      const int size = reflection->FieldSize(message, &field);
      if (!IsSection(field)) {
        if (size > 0 || with_defaults) flat->emplace_back(key, Values(message, field));
        continue;
      }
      for (int k = 0; k < size; ++k) {
        Append(reflection->GetRepeatedMessage(message, &field, k), absl::StrCat(key, "[", k, "]"),
               with_defaults, flat);
      }
    } else if (IsSection(field)) {
      if (!reflection->HasField(message, &field)) continue;
      if (field.real_containing_oneof() != nullptr) flat->emplace_back(prefix, field.name());
      Append(reflection->GetMessage(message, &field), key, with_defaults, flat);
    } else if (reflection->HasField(message, &field) ||
               (with_defaults && field.real_containing_oneof() == nullptr && !never_given)) {
      std::string value = FormatValue(message, field, -1);
      const bool given = never_given || field.real_containing_oneof() != nullptr;
      const bool is_default = !given && value == FormatValue(*defaults, field, -1);
      if (with_defaults || !is_default) flat->emplace_back(key, std::move(value));
    }
  }
}

}  // namespace

FlatConfig Flatten(const google::protobuf::Message& config, bool with_defaults) {
  FlatConfig flat;
  Append(config, "", with_defaults, &flat);
  return flat;
}

}  // namespace psgd
