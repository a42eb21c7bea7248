// Tells what an ONNX file needs, and what of it psgd does not take, for ps-ctl onnx check.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/sample_shape.h"
#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

struct OnnxOp {
  int nodes = 0;
  bool fused = false;  // made of several nodes of the file
  std::map<std::string, std::set<std::string>> attributes = {};  // all values of each
};

struct OnnxProblem {
  std::string op, node;  // empty: of the file as a whole
  std::string why;
};

struct OnnxWeights {
  std::string name, shape;  // the shape as "64x3x7x7"
  int64_t elements = 0;
};

struct OnnxCheck {
  int64_t opset = 0;
  int nodes = 0;        // on which the output depends
  int64_t weights = 0;  // in initializers on which the output depends, trained or not
  std::string samples;  // as "images of 3x224x224"
  std::map<std::string, OnnxOp> ops = {};
  std::vector<OnnxWeights> trained = {};
  bool marks_buffers = false;  // the file tells PyTorch's buffers from its parameters
  std::vector<std::string> notes = {};
  std::vector<OnnxProblem> problems = {};
};

// `shape` has the sizes of samples that the file leaves open, or zeros. An error if the file cannot
// be read, or leaves more open.
absl::StatusOr<OnnxCheck> CheckOnnx(const std::string& path, SampleShape shape);

// What the file config.onnx() tells before its nodes are imported, for a run that does that anyway.
// Empty if there is no file.
struct OnnxFacts {
  // Of it ops, trained and marks_buffers, and notes: log lines that begin with the file, and list
  // its untrained values and weights that train apart.
  OnnxCheck check;
  // An error if the file marks a parameter of several elements that PyTorch trains and psgd would
  // not. Only for a run that begins: a run that an earlier version began has trained without them.
  absl::Status lost;
};
// A note names at most `most` weights.
absl::StatusOr<OnnxFacts> FactsOfOnnx(const ModelConfig& config, size_t most = 20);

}  // namespace psgd
