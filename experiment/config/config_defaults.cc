#include <utility>

#include "experiment/config/config_yaml.h"
#include "experiment/config/schema.h"

namespace psgd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

void SetToDefault(Message* message, const FieldDescriptor& field) {
  const Reflection* reflection = message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(message, &field, field.default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(message, &field, field.default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->SetUInt32(message, &field, field.default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->SetUInt64(message, &field, field.default_value_uint64());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->SetFloat(message, &field, field.default_value_float());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->SetDouble(message, &field, field.default_value_double());
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(message, &field, field.default_value_bool());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->SetString(message, &field, field.default_value_string());
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnum(message, &field, field.default_value_enum());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      // Most lengths have no default: unset means "never".
      if (const auto usual = UsualLength(field))
        reflection->MutableMessage(message, &field)->CopyFrom(*usual);
      return;
  }
}

// An unset choice gets its first member, if that member is a section.
void Choose(Message* message, const OneofDescriptor& choice) {
  const Reflection* reflection = message->GetReflection();
  if (!reflection->HasOneof(*message, &choice) && IsSection(*choice.field(0))) {
    reflection->MutableMessage(message, choice.field(0));
  }
}

void Resolve(Message* message, bool in_list) {
  const Reflection* reflection = message->GetReflection();
  const auto& type = *message->GetDescriptor();
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) Choose(message, *type.oneof_decl(i));
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated()) {
      if (!IsSection(field)) continue;
      for (int k = 0; k < reflection->FieldSize(*message, &field); ++k) {
        Resolve(reflection->MutableRepeatedMessage(message, &field, k), /*in_list=*/true);
      }
      continue;
    }
    const bool optional = in_list || field.real_containing_oneof() != nullptr;
    const bool present = reflection->HasField(*message, &field);
    if (IsSection(field)) {
      if (present || !optional) Resolve(reflection->MutableMessage(message, &field), in_list);
    } else if (!present && field.real_containing_oneof() == nullptr) {
      SetToDefault(message, field);
    }
  }
}

}  // namespace

Config ResolveDefaults(Config config) {
  Resolve(&config, /*in_list=*/false);
  return config;
}

}  // namespace psgd
