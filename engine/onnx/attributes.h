// Attributes of a node, with the defaults of the standard.
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

}  // namespace psgd::onnx
