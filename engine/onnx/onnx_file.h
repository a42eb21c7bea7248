// A model file, read and checked for consistency. Nothing in the file is used before it is checked.
// The importer checks the ops.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/onnx/array.h"
#include "proto/onnx.pb.h"

namespace psgd::onnx {

// Immutable, so thread-safe.
class OnnxFile {
 public:
  // `path` also names the file in errors.
  static absl::StatusOr<OnnxFile> Read(const std::string& path);
  static absl::StatusOr<OnnxFile> Parse(const std::string& bytes, const std::string& path);

  const GraphProto& graph() const { return graph_; }
  const std::string& path() const { return path_; }
  int64_t opset() const { return opset_; }
  // By name. An Identity node that gives an initializer a second name makes another entry:
  // exporters merge weights that are equal before training, as those of copied layers. Tied weights
  // have one name.
  const std::map<std::string, ArrayPtr>& initializers() const { return initializers_; }

 private:
  absl::Status Check();
  absl::Status ReadInitializers();
  absl::Status CheckNodes() const;
  void NameIdentities();

  std::string path_;
  GraphProto graph_;
  int64_t opset_ = 0;
  std::map<std::string, ArrayPtr> initializers_;
};

// As "Conv node /conv1/Conv". Control characters are replaced, because names come from a file.
std::string NodeLabel(const NodeProto& node);
std::string SafeName(const std::string& name);

}  // namespace psgd::onnx
