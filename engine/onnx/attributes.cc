#include "engine/onnx/attributes.h"

namespace psgd::onnx {

const AttributeProto* FindAttribute(const NodeProto& node, const char* name) {
  for (const AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t IntAttribute(const NodeProto& node, const char* name, int64_t otherwise) {
  const AttributeProto* found = FindAttribute(node, name);
  return found == nullptr ? otherwise : found->i();
}

float FloatAttribute(const NodeProto& node, const char* name, float otherwise) {
  const AttributeProto* found = FindAttribute(node, name);
  return found == nullptr ? otherwise : found->f();
}

std::string TextAttribute(const NodeProto& node, const char* name, const char* otherwise) {
  const AttributeProto* found = FindAttribute(node, name);
  return found == nullptr ? otherwise : found->s();
}

std::vector<int64_t> IntsAttribute(const NodeProto& node, const char* name,
                                   std::vector<int64_t> otherwise) {
  const AttributeProto* found = FindAttribute(node, name);
  if (found == nullptr) return otherwise;
  return {found->ints().begin(), found->ints().end()};
}

AttributeProto* NewAttribute(NodeProto* node, const char* name, AttributeProto::Type type) {
  AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

void SetInt(NodeProto* node, const char* name, int64_t value) {
  NewAttribute(node, name, AttributeProto::INT)->set_i(value);
}
void SetFloat(NodeProto* node, const char* name, float value) {
  NewAttribute(node, name, AttributeProto::FLOAT)->set_f(value);
}
void SetInts(NodeProto* node, const char* name, const std::vector<int64_t>& values) {
  NewAttribute(node, name, AttributeProto::INTS)->mutable_ints()->Add(values.begin(), values.end());
}
void SetText(NodeProto* node, const char* name, const char* value) {
  NewAttribute(node, name, AttributeProto::STRING)->set_s(value);
}

}  // namespace psgd::onnx
