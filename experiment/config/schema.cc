#include "experiment/config/schema.h"

#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/units.h"
#include "proto/config.pb.h"

namespace psgd {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

bool IsProgress(const FieldDescriptor& field) {
  return field.message_type() == Progress::descriptor();
}

std::optional<Progress> UsualLength(const FieldDescriptor& field) {
  if (!IsProgress(field) || !field.options().HasExtension(usual_epochs)) return std::nullopt;
  Progress usual;
  usual.set_epochs(field.options().GetExtension(usual_epochs));
  return usual;
}

bool MayStayUnset(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE && !field.has_default_value() &&
         field.real_containing_oneof() == nullptr;
}

bool IsSection(const FieldDescriptor& field) {
  return field.message_type() != nullptr && !IsProgress(field);
}

std::vector<std::string> KeysOf(const Descriptor& type) {
  std::vector<std::string> keys;
  for (int i = 0; i < type.field_count(); ++i) keys.push_back(type.field(i)->name());
  return keys;
}

std::vector<std::string> ChoicesOf(const EnumDescriptor& type) {
  std::vector<std::string> choices;
  for (int i = 0; i < type.value_count(); ++i) {
    choices.push_back(absl::AsciiStrToLower(type.value(i)->name()));
  }
  return choices;
}

std::vector<std::string> MembersOf(const Descriptor& type) {
  std::vector<std::string> members;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.real_containing_oneof() != nullptr && IsSection(field)) {
      members.push_back(field.name());
    }
  }
  return members;
}

const FieldDescriptor* KeyOfWord(const Descriptor& type) {
  const std::string& key = type.options().GetExtension(word_for);
  return key.empty() ? nullptr : type.FindFieldByName(key);
}

std::optional<NumberWord> WordOf(const FieldDescriptor& field) {
  const std::vector<std::string> parts = absl::StrSplit(field.options().GetExtension(word), '=');
  NumberWord result;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &result.number)) return std::nullopt;
  result.word = parts[0];
  return result;
}

std::string NumberInUnit(const FieldDescriptor& field, double number) {
  switch (field.options().GetExtension(unit)) {
    case BYTES:
      return FormatBytes(static_cast<int64_t>(number));
    case MILLISECONDS:
      return FormatMilliseconds(static_cast<int64_t>(number));
    default:
      break;
  }
  // Whole numbers keep all their digits: 1000000, not 1e+06.
  constexpr double kExactBelow = 1e15;
  if (number == std::trunc(number) && std::abs(number) < kExactBelow) {
    return absl::StrCat(static_cast<int64_t>(number));
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, number);
  return std::string(text, end.ptr);
}

std::string RangeOf(const FieldDescriptor& field) {
  const auto& options = field.options();
  const auto number = [&](const auto& bound) {
    return NumberInUnit(field, options.GetExtension(bound));
  };
  const std::optional<NumberWord> named = WordOf(field);
  const bool has_low = options.HasExtension(min) || options.HasExtension(above);
  const bool has_high = options.HasExtension(max) || options.HasExtension(below);

  std::string range;
  if (options.HasExtension(min) && options.HasExtension(max)) {
    range = absl::StrCat(number(min), " to ", number(max));
  } else {
    if (options.HasExtension(min)) {
      const double lowest = options.GetExtension(min);
      // If the word stands for the lowest number, plain numbers begin above that number.
      const bool is_word = named.has_value() && lowest == static_cast<double>(named->number);
      range = absl::StrCat("at least ", NumberInUnit(field, is_word ? lowest + 1 : lowest));
    } else if (options.HasExtension(above)) {
      range = absl::StrCat("above ", number(above));
    }
    if (has_low && has_high) range += " and ";
    if (options.HasExtension(max)) absl::StrAppend(&range, "at most ", number(max));
    if (options.HasExtension(below)) absl::StrAppend(&range, "below ", number(below));
  }
  if (named.has_value()) absl::StrAppend(&range, ", or \"", named->word, "\"");
  return range;
}

bool InRange(const FieldDescriptor& field, double number) {
  const auto& options = field.options();
  return !(options.HasExtension(min) && number < options.GetExtension(min)) &&
         !(options.HasExtension(max) && number > options.GetExtension(max)) &&
         !(options.HasExtension(above) && number <= options.GetExtension(above)) &&
         !(options.HasExtension(below) && number >= options.GetExtension(below));
}

bool IsListOfNames(const FieldDescriptor& field) {
  return field.is_repeated() && field.file() == Config::descriptor()->file() &&
         field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
}

}  // namespace psgd
