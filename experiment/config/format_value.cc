#include "experiment/config/format_value.h"

#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "experiment/config/schema.h"
#include "proto/config.pb.h"

namespace psgd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename T>
using Getter = T (Reflection::*)(const Message&, const FieldDescriptor*) const;
template <typename T>
using ItemGetter = T (Reflection::*)(const Message&, const FieldDescriptor*, int) const;

template <typename T>
T Get(const Message& message, const FieldDescriptor& field, int index, Getter<T> get,
      ItemGetter<T> get_item) {
  const Reflection* reflection = message.GetReflection();
  return index < 0 ? (reflection->*get)(message, &field)
                   : (reflection->*get_item)(message, &field, index);
}

// Writes the fewest digits that read back as exactly this number.
template <typename T>
std::string FormatReal(T value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

std::string FormatInteger(const FieldDescriptor& field, int64_t value) {
  const std::optional<NumberWord> named = WordOf(field);
  if (named.has_value() && value == named->number) return named->word;
  switch (field.options().GetExtension(unit)) {
    case BYTES:
      return FormatBytes(value);
    case MILLISECONDS:
      return FormatMilliseconds(value);
    default:
      return absl::StrCat(value);
  }
}

std::string FormatProgress(const Progress& progress) {
  if (progress.has_steps()) {
    return absl::StrCat(progress.steps(), progress.steps() == 1 ? " step" : " steps");
  }
  return absl::StrCat(FormatReal(progress.epochs()), progress.epochs() == 1 ? " epoch" : " epochs");
}

}  // namespace

std::string FormatValue(const Message& message, const FieldDescriptor& field, int index) {
  const auto get = [&](auto getter, auto item_getter) {
    return Get(message, field, index, getter, item_getter);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return FormatInteger(field, get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
    case FieldDescriptor::CPPTYPE_INT64:
      return FormatInteger(field, get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FormatReal(get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FormatReal(get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_STRING:
      return get(&Reflection::GetString, &Reflection::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::AsciiStrToLower(get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name());
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const Reflection* reflection = message.GetReflection();
      Progress progress;
      progress.CopyFrom(index < 0 ? reflection->GetMessage(message, &field)
                                  : reflection->GetRepeatedMessage(message, &field, index));
      if (index < 0 && !reflection->HasField(message, &field))
        progress = UsualLength(field).value_or(progress);
      return FormatProgress(progress);
    }
    case FieldDescriptor::CPPTYPE_UINT32:
      break;  // ParseValue refuses it too
  }
  return "";
}

}  // namespace psgd
