// Reads a node's attributes, with the defaults of the standard, and adds attributes.
#pragma once

#include <string>
#include <vector>

#include "proto/onnx.pb.h"

namespace psgd::onnx {

const AttributeProto* FindAttribute(const NodeProto& node, const char* name);
int64_t IntAttribute(const NodeProto& node, const char* name, int64_t otherwise);
float FloatAttribute(const NodeProto& node, const char* name, float otherwise);
std::string TextAttribute(const NodeProto& node, const char* name, const char* otherwise);
std::vector<int64_t> IntsAttribute(const NodeProto& node, const char* name,
                                   std::vector<int64_t> otherwise = {});

AttributeProto* NewAttribute(NodeProto* node, const char* name, AttributeProto::Type type);
void SetInt(NodeProto* node, const char* name, int64_t value);
void SetFloat(NodeProto* node, const char* name, float value);
void SetInts(NodeProto* node, const char* name, const std::vector<int64_t>& values);
void SetText(NodeProto* node, const char* name, const char* value);

}  // namespace psgd::onnx
