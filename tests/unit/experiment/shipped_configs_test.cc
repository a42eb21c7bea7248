// Every shipped config loads, and the documentation has every key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "experiment/config/config_yaml.h"
#include "experiment/config/format_value.h"
#include "experiment/config/schema.h"
#include "tests/folders.h"

namespace psgd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string Read(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ShippedConfigs, LoadAndValidate) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/configs")) {
    if (entry.is_directory()) continue;  // sweeps: tests/unit/sweep
    const absl::StatusOr<Config> config = LoadConfig(entry.path().string());
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_TRUE(ValidateConfig(ResolveDefaults(*config)).ok()) << ValidateConfig(*config);
    EXPECT_TRUE(config->has_name()) << entry.path() << ": a run's directory is named for it";
    EXPECT_TRUE(absl::StartsWith(Read(entry.path()), "# "))
        << entry.path() << ": begin with a comment on what it is for and what it costs";
    ++found;
  }
  EXPECT_GE(found, 3);
}

// The kind of a key, in the documentation's words.
std::string Kind(const FieldDescriptor& field) {
  std::string kind;
  if (IsProgress(field)) {
    kind = "length";
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    kind = absl::StrJoin(ChoicesOf(*field.enum_type()), ", ");
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    kind = "true, false";
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    kind = field.options().GetExtension(identifier) ? "name" : "text";
  } else {
    switch (field.options().GetExtension(unit)) {
      case BYTES:
        kind = "size";
        break;
      case MILLISECONDS:
        kind = "duration";
        break;
      default:
        const bool real = field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT ||
                          field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
        kind = real ? "number" : "whole number";
    }
    const std::string range = RangeOf(field);
    if (!range.empty()) absl::StrAppend(&kind, ", ", range);
  }
  return field.is_repeated() ? "list of: " + kind : kind;
}

std::string Default(const FieldDescriptor& field, const Message& defaults) {
  if (field.is_repeated()) return "`[]`";
  const bool none =
      (IsProgress(field) && !UsualLength(field)) || field.real_containing_oneof() != nullptr ||
      MayStayUnset(field) ||
      (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && field.default_value_string().empty());
  return none ? "none" : absl::StrCat("`", FormatValue(defaults, field, -1), "`");
}

// The rows that the documentation must have, without the last cell, which explains the key.
void CollectRows(const Descriptor& type, const std::string& prefix, std::set<std::string>* rows) {
  const std::unique_ptr<Message> defaults(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string key = prefix + field.name();
    if (!IsSection(field)) {
      rows->insert(
          absl::StrCat("| `", key, "` | ", Default(field, *defaults), " | ", Kind(field), " | "));
    } else if (field.message_type()->field_count() == 0) {
      rows->insert(absl::StrCat("| `", key, "` | "));
    } else {
      // Each of these is documented once, under compression.push, optimizer or schedule.
      if (key == "compression.rules[].push" || key == "compression.pull.delta.codec" ||
          key == "compression.push.auto.codecs" || key == "local.optimizer" ||
          key == "local.schedule") {
        rows->insert(absl::StrCat("| `", key, "` | "));
        continue;
      }
      CollectRows(*field.message_type(), key + (field.is_repeated() ? "[]." : "."), rows);
    }
  }
}

TEST(Documentation, HasEveryKeyWithItsDefaultAndRange) {
  const std::string page = Read(SourceDir() + "/docs/configuration.md");
  const std::vector<std::string> lines = absl::StrSplit(page, '\n');
  std::set<std::string> rows;
  CollectRows(*Config::descriptor(), "", &rows);
  std::vector<std::string> missing;
  for (const std::string& row : rows) {
    const bool found = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return absl::StartsWith(line, row) && line.size() > row.size() + 5;
    });
    if (!found) missing.push_back(row);
  }
  EXPECT_TRUE(missing.empty()) << "docs/configuration.md lacks rows that begin:\n"
                               << absl::StrJoin(missing, "\n");
  // There are no other rows: a removed key must leave the page.
  for (const std::string& line : lines) {
    if (!absl::StartsWith(line, "| `")) continue;
    const bool known = std::any_of(rows.begin(), rows.end(), [&](const std::string& row) {
      return absl::StartsWith(line, row);
    });
    EXPECT_TRUE(known) << "docs/configuration.md has a row for no key, or an outdated one:\n"
                       << line;
  }
}

TEST(Documentation, ItsExamplesLoad) {
  const std::string page = Read(SourceDir() + "/docs/configuration.md");
  const std::vector<std::string> parts = absl::StrSplit(page, "```yaml\n");
  ASSERT_GT(parts.size(), 1u);
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string example = parts[i].substr(0, parts[i].find("```"));
    const absl::StatusOr<Config> config = ParseConfig(example, "example");
    EXPECT_TRUE(config.ok()) << config.status() << "\n" << example;
  }
}

}  // namespace
}  // namespace psgd
