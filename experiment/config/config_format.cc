#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/config/config_yaml.h"
#include "experiment/config/format_value.h"
#include "experiment/config/schema.h"

namespace psgd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A word needs no quotes if YAML can only read it as a string.
std::string YamlString(absl::string_view text) {
  bool plain =
      !text.empty() && (absl::ascii_isalpha(static_cast<unsigned char>(text[0])) || text[0] == '/');
  std::string quoted = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    plain =
        plain && (absl::ascii_isalnum(byte) || absl::StrContains("/._-", absl::string_view(&c, 1)));
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&c, 1));
    } else if (absl::ascii_iscntrl(byte)) {
      absl::StrAppendFormat(&quoted, "\\x%02x", byte);
    } else {
      quoted += c;
    }
  }
  plain = plain && !absl::EqualsIgnoreCase(text, "null") && !absl::EqualsIgnoreCase(text, "true") &&
          !absl::EqualsIgnoreCase(text, "false");
  return plain ? std::string(text) : quoted + "\"";
}

std::string YamlValue(const Message& message, const FieldDescriptor& field, int index) {
  const std::string text = FormatValue(message, field, index);
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ? YamlString(text) : text;
}

std::string Indent(int depth) { return std::string(2 * static_cast<size_t>(depth), ' '); }

void AppendSection(const Message& message, int depth, std::string* out);

// Writes " {}" or an indented block.
void AppendBody(const Message& message, int depth, std::string* out) {
  std::string body;
  AppendSection(message, depth, &body);
  absl::StrAppend(out, body.empty() ? " {}\n" : "\n", body);
}

void AppendList(const Message& message, const FieldDescriptor& field, int depth, std::string* out) {
  const int size = message.GetReflection()->FieldSize(message, &field);
  if (!IsSection(field) || size == 0) {
    absl::StrAppend(out, " [");
    for (int i = 0; i < size; ++i) {
      absl::StrAppend(out, i == 0 ? "" : ", ", YamlValue(message, field, i));
    }
    absl::StrAppend(out, "]\n");
    return;
  }
  absl::StrAppend(out, "\n");
  for (int i = 0; i < size; ++i) {
    std::string body;
    AppendSection(message.GetReflection()->GetRepeatedMessage(message, &field, i), depth + 1,
                  &body);
    if (body.empty()) body = Indent(depth + 1) + "{}\n";
    // The dash replaces part of the first line's indentation.
    absl::StrAppend(out, Indent(depth), "- ",
                    absl::string_view(body).substr(Indent(depth + 1).size()));
  }
}

void AppendSection(const Message& message, int depth, std::string* out) {
  const Reflection* reflection = message.GetReflection();
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool present = field.is_repeated() || reflection->HasField(message, &field);
    // Skips members that a choice does not select, and sections that an element of a list leaves
    // out.
    if (!present && !IsProgress(field)) continue;
    absl::StrAppend(out, Indent(depth), field.name(), ":");
    if (field.is_repeated()) {
      AppendList(message, field, depth + 1, out);
    } else if (IsSection(field)) {
      AppendBody(reflection->GetMessage(message, &field), depth + 1, out);
    } else {
      absl::StrAppend(out, " ", present ? YamlValue(message, field, -1) : "null", "\n");
    }
  }
}

}  // namespace

std::string FormatConfig(const Config& config) {
  std::string text;
  AppendSection(ResolveDefaults(config), 0, &text);
  return text;
}

}  // namespace psgd
