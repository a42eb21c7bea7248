#include "experiment/config/parse_value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/suggest.h"
#include "common/units.h"
#include "common/utf8.h"
#include "experiment/config/other_names.h"
#include "experiment/config/schema.h"
#include "proto/config.pb.h"

namespace psgd {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status Expected(absl::string_view what, absl::string_view text, bool quoted = false) {
  return InvalidArgumentError("expected ", what, ", got ", quoted ? "the string " : "",
                              Quote(text));
}

absl::Status OutOfRange(const FieldDescriptor& field, absl::string_view text) {
  double number = 1;
  const bool stays =
      field.name() == "learning_rate" && absl::SimpleAtod(text, &number) && number == 0;
  return InvalidArgumentError(text, " is out of range: must be ", RangeOf(field),
                              stays ? ": with 0 the weights never change" : "");
}

template <typename T>
using Setter = void (Reflection::*)(Message*, const FieldDescriptor*, T) const;

template <typename T>
absl::Status Put(std::type_identity_t<T> value, const FieldDescriptor& field, Message* message,
                 Setter<T> set, Setter<T> add) {
  (message->GetReflection()->*(field.is_repeated() ? add : set))(message, &field, std::move(value));
  return absl::OkStatus();
}

// The number does not fit the type. The error names the schema's range, or else the type's limit.
template <typename T>
absl::Status DoesNotFit(const FieldDescriptor& field, absl::string_view text) {
  const auto& options = field.options();
  if (absl::StartsWith(text, "-")) {
    if (options.HasExtension(min) || options.HasExtension(above)) return OutOfRange(field, text);
    return InvalidArgumentError(text, " is out of range: must be at least ",
                                std::numeric_limits<T>::min());
  }
  if (options.HasExtension(max) || options.HasExtension(below)) return OutOfRange(field, text);
  return InvalidArgumentError(text, " is out of range: must be at most ",
                              std::numeric_limits<T>::max());
}

// Parses `4MiB` or `100ms`, for a field with a unit.
absl::StatusOr<int64_t> ParseMeasure(Unit unit, absl::string_view text) {
  if (FindNonText(text) != text.npos) return Expected("a number with a unit", text);
  return unit == BYTES ? ParseBytes(text) : ParseMilliseconds(text);
}

template <typename T>
absl::Status ParseInteger(const FieldDescriptor& field, absl::string_view text, bool quoted,
                          T* value) {
  const std::optional<NumberWord> named = WordOf(field);
  const Unit measure = field.options().GetExtension(unit);
  const absl::string_view digits =
      absl::StartsWith(text, "-") || absl::StartsWith(text, "+") ? text.substr(1) : text;
  if (named.has_value() && absl::EqualsIgnoreCase(text, named->word)) {
    *value = static_cast<T>(named->number);
  } else if (measure != PLAIN) {
    PSGD_ASSIGN_OR_RETURN(const int64_t number, ParseMeasure(measure, text));
    if (!std::in_range<T>(number)) return DoesNotFit<T>(field, text);
    *value = static_cast<T>(number);
  } else if (quoted || digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) {
    if (!named.has_value()) return Expected("a whole number", text, quoted);
    return InvalidArgumentError(
        Expected(absl::StrCat("a whole number or \"", named->word, "\""), text, quoted).message(),
        HintForOtherValue(text, {named->word}));
  } else if (!absl::SimpleAtoi(text, value)) {
    return DoesNotFit<T>(field, text);
  } else if (named.has_value() && static_cast<int64_t>(*value) == named->number) {
    return OutOfRange(field, text);  // only the word may give this number
  }
  if (!InRange(field, static_cast<double>(*value))) return OutOfRange(field, text);
  return absl::OkStatus();
}

template <typename T>
absl::Status ParseReal(const FieldDescriptor& field, absl::string_view text, bool quoted,
                       T* value) {
  bool parsed = false;
  // Only digits, sign, point and exponent: no "nan", no "infinity", no hexadecimal.
  if (!quoted && !text.empty() && text.find_first_not_of("0123456789+-.eE") == text.npos) {
    if constexpr (std::is_same_v<T, float>) {
      parsed = absl::SimpleAtof(text, value);
    } else {
      parsed = absl::SimpleAtod(text, value);
    }
  }
  if (!parsed) return Expected("a number", text, quoted);
  if (!std::isfinite(*value)) {
    return InvalidArgumentError(text, " is too large for this key");
  }
  if (!InRange(field, static_cast<double>(*value))) return OutOfRange(field, text);
  return absl::OkStatus();
}

absl::Status ParseBool(const FieldDescriptor&, absl::string_view text, bool quoted, bool* value) {
  *value = absl::EqualsIgnoreCase(text, "true");
  if (!quoted && (*value || absl::EqualsIgnoreCase(text, "false"))) return absl::OkStatus();
  return Expected("true or false", text, quoted);
}

absl::StatusOr<const google::protobuf::EnumValueDescriptor*> ParseEnum(const EnumDescriptor& type,
                                                                       absl::string_view text) {
  const std::vector<std::string> choices = ChoicesOf(type);
  for (size_t i = 0; i < choices.size(); ++i) {
    if (absl::EqualsIgnoreCase(choices[i], text)) return type.value(static_cast<int>(i));
  }
  const std::string hint = HintForOtherValue(text, choices);
  return InvalidArgumentError(Quote(text), " is not one of ", absl::StrJoin(choices, ", "),
                              hint.empty() ? Suggest(text, choices) : hint);
}

absl::Status CheckString(const FieldDescriptor& field, absl::string_view text) {
  if (FindNonText(text) != text.npos || text.find_first_of("\r\n") != text.npos) {
    return absl::InvalidArgumentError("a line end, control character or malformed UTF-8 in it");
  }
  if (!field.options().GetExtension(identifier)) return absl::OkStatus();
  const bool letters = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
  if (letters && !text.empty() && text.size() <= 64) return absl::OkStatus();
  return Expected("1 to 64 letters, digits, '.', '_' or '-'", text);
}

// Parses `2 epochs`, `0.5 epochs` or `500 steps`. Quotes make no difference, because no length is a
// plain number.
absl::Status ParseProgress(absl::string_view text, bool quoted, Progress* progress) {
  size_t end = text.size();
  while (end > 0 && absl::ascii_isalpha(static_cast<unsigned char>(text[end - 1]))) --end;
  const absl::string_view name = text.substr(end);
  const absl::string_view number = absl::StripAsciiWhitespace(text.substr(0, end));
  const google::protobuf::Descriptor& type = *Progress::descriptor();
  if (!number.empty() && (name == "epochs" || name == "epoch")) {
    return ParseValue(*type.FindFieldByName("epochs"), number, false, progress);
  }
  if (!number.empty() && (name == "steps" || name == "step")) {
    return ParseValue(*type.FindFieldByName("steps"), number, false, progress);
  }
  return Expected("a length such as 2 epochs or 500 steps", text, quoted);
}

}  // namespace

absl::Status ParseValue(const FieldDescriptor& field, absl::string_view text, bool quoted,
                        Message* message) {
  const auto read = [&]<typename T>(
                        absl::Status (*parse)(const FieldDescriptor&, absl::string_view, bool, T*),
                        Setter<T> set, Setter<T> add) -> absl::Status {
    T value{};
    PSGD_RETURN_IF_ERROR(parse(field, text, quoted, &value));
    return Put(value, field, message, set, add);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return read(&ParseInteger<int32_t>, &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return read(&ParseInteger<int64_t>, &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT64:
      return read(&ParseInteger<uint64_t>, &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return read(&ParseReal<float>, &Reflection::SetFloat, &Reflection::AddFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return read(&ParseReal<double>, &Reflection::SetDouble, &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      return read(&ParseBool, &Reflection::SetBool, &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_STRING:
      PSGD_RETURN_IF_ERROR(CheckString(field, text));
      return Put(std::string(text), field, message, &Reflection::SetString, &Reflection::AddString);
    case FieldDescriptor::CPPTYPE_ENUM: {
      PSGD_ASSIGN_OR_RETURN(const auto* value, ParseEnum(*field.enum_type(), text));
      return Put(value, field, message, &Reflection::SetEnum, &Reflection::AddEnum);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Progress value;
      const absl::Status parsed = ParseProgress(text, quoted, &value);
      if (!parsed.ok()) {
        const bool bare =
            UsualLength(field).has_value() && !quoted &&
            std::ranges::all_of(text, [](unsigned char c) { return absl::ascii_isdigit(c); });
        if (!bare) return parsed;
        PSGD_RETURN_IF_ERROR(
            ParseValue(*Progress::descriptor()->FindFieldByName("steps"), text, false, &value));
      }
      const Reflection* reflection = message->GetReflection();
      (field.is_repeated() ? reflection->AddMessage(message, &field)
                           : reflection->MutableMessage(message, &field))
          ->CopyFrom(value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT32:
      break;
  }
  return absl::InternalError("the schema has a type that YAML is not read into");
}

}  // namespace psgd
