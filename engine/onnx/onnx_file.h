// A model file, read and checked: what it says of itself is consistent, and nothing in it is used
// before it is checked. What it computes is the importer's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/onnx/array.h"
#include "proto/onnx.pb.h"

namespace psgd::onnx {

// Immutable.
class OnnxFile {
 public:
  // `path` also names the file in errors.
  static absl::StatusOr<OnnxFile> Read(const std::string& path);
  static absl::StatusOr<OnnxFile> Parse(const std::string& bytes, const std::string& path);

  const GraphProto& graph() const { return graph_; }
  const std::string& path() const { return path_; }
  int64_t opset() const { return opset_; }
  // By name. A node that only gives an initializer a second name (Identity) makes another entry
  // when it has one axis: exporters merge equal biases and norms, which the network trains apart.
  // Of more axes, it is the same weights used twice.
  const std::map<std::string, ArrayPtr>& initializers() const { return initializers_; }
  // Names of initializers that are the same weights.
  const std::map<std::string, std::string>& aliases() const { return aliases_; }

 private:
  absl::Status Check();
  absl::Status ReadInitializers();
  absl::Status CheckNodes() const;
  void NameIdentities();

  std::string path_;
  GraphProto graph_;
  int64_t opset_ = 0;
  std::map<std::string, ArrayPtr> initializers_;
  std::map<std::string, std::string> aliases_;
};

// As "Conv node /conv1/Conv", with control characters replaced: names come from a file.
std::string NodeLabel(const NodeProto& node);
std::string SafeName(const std::string& name);

}  // namespace psgd::onnx
