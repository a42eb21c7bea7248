#include "simulate/model_yaml.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files.h"
#include "common/units.h"
#include "experiment/config/config_reader.h"
#include "experiment/config/format_value.h"
#include "experiment/config/schema.h"
#include "experiment/config/yaml_tree.h"

namespace psgd::sim {
namespace {

using google::protobuf::FieldDescriptor;

// Times and rates have units of their own; the rest is read as a config is.
class ModelReader {
 public:
  explicit ModelReader(YamlSource source) : source_(std::move(source)) {}

  absl::StatusOr<SimModel> Read() {
    PSGD_ASSIGN_OR_RETURN(tree_, ParseYaml(source_));
    ConfigReader reader(
        source_, tree_,
        [this](uint32_t node, const std::string& path, const FieldDescriptor& field,
               google::protobuf::Message* message) { return OwnWay(node, path, field, message); });
    SimModel model;
    PSGD_RETURN_IF_ERROR(reader.ReadSection(tree_.root, "", &model));
    return model;
  }

 private:
  std::optional<absl::Status> OwnWay(uint32_t node, const std::string& path,
                                     const FieldDescriptor& field,
                                     google::protobuf::Message* message) {
    const Measure kind = field.options().GetExtension(measure);
    const YamlNode& value = tree_.nodes[node];
    if (kind == NUMBER || value.kind == YamlNode::kNull) return std::nullopt;
    const auto number = kind == SECONDS ? ParseSeconds(value.text) : ParseRate(value.text);
    if (!number.ok()) {
      return source_.ErrorAt(value.mark, absl::StrCat(path, ": ", number.status().message()));
    }
    if (!InRange(field, *number)) {
      return source_.ErrorAt(value.mark,
                             absl::StrCat(path, ": ", value.text, " is out of range: must be ",
                                          RangeOf(field), kind == SECONDS ? ", in seconds" : ""));
    }
    message->GetReflection()->SetDouble(message, &field, *number);
    return absl::OkStatus();
  }

  const YamlSource source_;
  YamlTree tree_;
};

std::string ValueOf(const google::protobuf::Message& message, const FieldDescriptor& field);

// A list of sections, each in braces.
std::string ListOf(const google::protobuf::Message& message, const FieldDescriptor& list) {
  std::vector<std::string> entries;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &list); ++i) {
    const auto& entry = message.GetReflection()->GetRepeatedMessage(message, &list, i);
    std::vector<std::string> keys;
    for (int k = 0; k < list.message_type()->field_count(); ++k) {
      const FieldDescriptor& field = *list.message_type()->field(k);
      keys.push_back(absl::StrCat(std::string(field.name()), ": ", ValueOf(entry, field)));
    }
    entries.push_back(absl::StrCat("{", absl::StrJoin(keys, ", "), "}"));
  }
  return absl::StrCat("[", absl::StrJoin(entries, ", "), "]");
}

std::string ValueOf(const google::protobuf::Message& message, const FieldDescriptor& field) {
  if (field.is_repeated()) return ListOf(message, field);
  switch (field.options().GetExtension(measure)) {
    case SECONDS:
      return FormatSeconds(message.GetReflection()->GetDouble(message, &field));
    case RATE:
      return FormatRate(message.GetReflection()->GetDouble(message, &field));
    default:
      break;
  }
  const std::string text = FormatValue(message, field, -1);
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ? absl::StrCat("\"", text, "\"")
                                                             : text;
}

}  // namespace

absl::StatusOr<SimModel> LoadModel(const std::string& path) {
  absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxYamlBytes);
  if (!text.ok()) {
    return InvalidArgumentError("model: ", text.status().message(),
                                "; ps-sim CONFIG --calibrate RUN_DIR makes one from a run");
  }
  return ParseModel(*std::move(text), path);
}

absl::StatusOr<SimModel> ParseModel(std::string text, std::string name_for_errors) {
  return ModelReader({std::move(name_for_errors), std::move(text)}).Read();
}

std::string FormatModel(const SimModel& model) {
  std::string text;
  const auto& type = *SimModel::descriptor();
  for (int s = 0; s < type.field_count(); ++s) {
    const FieldDescriptor& section = *type.field(s);
    const google::protobuf::Message& message = model.GetReflection()->GetMessage(model, &section);
    std::vector<std::string> keys;
    for (int i = 0; i < section.message_type()->field_count(); ++i) {
      const FieldDescriptor& field = *section.message_type()->field(i);
      keys.push_back(
          absl::StrCat("  ", std::string(field.name()), ": ", ValueOf(message, field), "\n"));
    }
    absl::StrAppend(&text, std::string(section.name()), ":\n", absl::StrJoin(keys, ""));
  }
  return text;
}

}  // namespace psgd::sim
