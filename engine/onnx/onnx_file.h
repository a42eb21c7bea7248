// A model file, read and checked for consistency. Nothing in the file is used before it is checked.
// In names of values, _ replaces what shards do not take: spaces, and all but printable ASCII.
// The importer checks the ops.
#pragma once

#include <map>
#include <string>

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
  // By name, with the second names.
  const std::map<std::string, ArrayPtr>& initializers() const { return initializers_; }
  // Second names of initializers, each with the first. PyTorch's exporter merges weights that are
  // equal before training, as those of copied layers, and an Identity node has the second one's
  // name. Tied weights have one name. Identity nodes of other exporters, and those of the network,
  // pass a weight on.
  const std::map<std::string, std::string>& second_names() const { return second_names_; }
  bool IsSecondName(const NodeProto& node) const {
    return node.output_size() > 0 && second_names_.count(node.output(0)) > 0;
  }
  // Whether the file marks PyTorch's parameters and buffers, as torch.onnx.export with dynamo=True
  // does.
  bool marks_parameters() const { return !marks_.empty(); }
  // Whether the file marks the initializer as a parameter of PyTorch.
  bool IsParameter(const std::string& name) const;
  // Whether the file has no marks, and PyTorch wrote it and named the initializer as it names
  // parameters and buffers.
  bool MayBeParameter(const std::string& name) const;
  // Whether the file marks the initializer as a buffer or another constant.
  bool IsBuffer(const std::string& name) const;

 private:
  absl::Status Check();
  absl::Status ReadInitializers();
  absl::Status CheckNodes() const;
  void NameIdentities();
  void ReadMarks();

  std::string path_, producer_;
  GraphProto graph_;
  int64_t opset_ = 0;
  std::map<std::string, ArrayPtr> initializers_;
  std::map<std::string, std::string> second_names_;
  std::map<std::string, std::string> marks_;  // PyTorch's kind of a value, as PARAMETER
};

// As "Conv node /conv1/Conv". Control characters are replaced, because names come from a file.
std::string NodeLabel(const NodeProto& node);
std::string SafeName(const std::string& name);

}  // namespace psgd::onnx
