#include "experiment/plan/flow_yaml.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace psgd {
namespace {

// Inside brackets, text that YAML could misread needs quotes.
std::string Scalar(const YamlNode& node) {
  const bool plain = !node.quoted && !node.text.empty() &&
                     node.text.find_first_of(",[]{}:#\"'\n&*!|>%@`") == std::string::npos;
  if (plain) return node.text;
  return absl::StrCat("\"", absl::StrReplaceAll(node.text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

void Append(const YamlTree& tree, uint32_t index, std::string* text) {
  const YamlNode& node = tree.nodes[index];
  switch (node.kind) {
    case YamlNode::kNull:
      absl::StrAppend(text, "null");
      return;
    case YamlNode::kScalar:
      absl::StrAppend(text, Scalar(node));
      return;
    case YamlNode::kList:
      absl::StrAppend(text, "[");
      for (size_t i = 0; i < node.children.size(); ++i) {
        absl::StrAppend(text, i == 0 ? "" : ", ");
        Append(tree, node.children[i], text);
      }
      absl::StrAppend(text, "]");
      return;
    case YamlNode::kMap:
      absl::StrAppend(text, "{");
      for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
        absl::StrAppend(text, i == 0 ? "" : ", ");
        Append(tree, node.children[i], text);
        absl::StrAppend(text, ": ");
        Append(tree, node.children[i + 1], text);
      }
      absl::StrAppend(text, "}");
      return;
  }
}

}  // namespace

std::string FlowYaml(const YamlTree& tree, uint32_t node) {
  // --set takes a string literally.
  if (tree.nodes[node].kind == YamlNode::kScalar) return tree.nodes[node].text;
  std::string text;
  Append(tree, node, &text);
  return text;
}

}  // namespace psgd
