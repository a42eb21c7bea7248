// Turns the nodes of an ONNX file into those of a Graph, one after the other. What is known without
// the input (shapes, masks) is computed while importing; what the file trains becomes parameters.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/graph/builder.h"
#include "engine/onnx/onnx_file.h"
#include "proto/config.pb.h"

namespace psgd::onnx {

struct ImportOptions {
  Mode mode = Mode::kTrain;
  int batch = 1;
  InputShape shape = {};
  ModelConfig config = {};  // which weights are frozen, the loss
};

inline constexpr int64_t kNoBatch = -1;

// What a name stands for while importing.
struct Value {
  ArrayPtr array = {};         // known, in the sizes of the file
  std::string parameter = {};  // the array is where this parameter starts; empty: nothing trains it
  TensorId tensor = kNoTensor;
  // Elements before the batch in row-major order: of N T C 1, of T N C T. The file may have been
  // exported with one batch size baked in; this finds its axis again. kNoBatch: no axis depends on
  // it.
  int64_t outer = kNoBatch;
  // What is still to do with the tensor, where the next op may have it done at no cost:
  bool flipped = false;  // transpose it (two axes),
  float scale = 1;       // then multiply it,
  ArrayPtr mask = {};    // then add this to its last axes.
  bool missing = false;  // its node could not be imported

  bool known() const { return array != nullptr && parameter.empty(); }
};

class Importer {
 public:
  Importer(const OnnxFile& file, ImportOptions options)
      : file_(file), options_(std::move(options)) {}
  absl::StatusOr<ModelGraph> Run();
  // Instead of Run: each with its shape, as HeldFixedText says.
  absl::StatusOr<std::vector<std::string>> HeldFixed();

  // For the ops.
  Graph* graph() { return &model_.graph; }
  bool training() const { return options_.mode == Mode::kTrain; }
  int64_t opset() const { return file_.opset(); }
  int64_t vocabulary() const { return options_.shape.vocabulary; }
  bool IsTokens(const Value& value) const {
    return value.tensor != kNoTensor &&
           model_.graph.tensors[value.tensor].element == Element::kInt32;
  }
  int64_t batch() const { return options_.batch; }
  int64_t file_batch() const { return file_batch_; }
  uint32_t NextDropout() { return dropouts_++; }
  // The value as a tensor of the graph, with all done that is still to do.
  absl::StatusOr<TensorId> Tensor(const Value& value);
  // A constant in sizes of this run.
  absl::StatusOr<TensorId> MakeConstant(const std::string& name, Shape shape,
                                        std::vector<float> values);
  // For so many known values more: all together they stay within bounds, beyond which nothing more
  // is imported.
  absl::Status Spend(int64_t elements);
  // A statistic of batch normalisation: averaged over workers, not trained.
  absl::StatusOr<TensorId> Statistic(const Value& value);
  // Some node that the output depends on uses output `i` of this one.
  bool Needs(const NodeProto& node, int i) const {
    return i < node.output_size() && needed_.count(node.output(i)) > 0;
  }
  // Of this run, and as the file has it: they differ in the axis of the batch.
  Shape ShapeOf(const Value& value) const;
  Shape FileShapeOf(const Value& value) const;

 private:
  absl::Status Start();
  // Finds the output and what it depends on, and of that, what is trained.
  absl::Status ChooseTrained();
  absl::Status FindOutput();
  absl::Status CheckFrozen() const;
  absl::Status CheckNumbers() const;
  // A last softmax that was left out, since the loss has one, is over the classes.
  absl::Status CheckProbabilities(const Shape& logits, int64_t classes_axis) const;
  absl::Status CheckInput(const ValueInfoProto& input, const psgd::Tensor& sample, Shape* shape);
  void FindNeeded();
  void FindTrained();
  absl::StatusOr<std::vector<Value>> ImportNode(const NodeProto& node,
                                                std::vector<const Value*>& inputs);
  void ImportAll();
  absl::StatusOr<ModelGraph> Finish();
  absl::StatusOr<TensorId> NewParameter(const Value& value, bool statistic);
  absl::StatusOr<TensorId> ConstantOf(const ArrayPtr& array);

  const OnnxFile& file_;
  const ImportOptions options_;
  ModelGraph model_;
  std::string output_;                        // that gives the logits
  const NodeProto* probabilities_ = nullptr;  // the softmax behind them; null: none
  int64_t file_batch_ = 1;
  std::set<std::string> needed_;   // names that the output depends on
  std::set<std::string> trained_;  // initializers
  std::map<std::string, Value> values_;
  std::map<std::string, TensorId> parameters_;
  std::map<ArrayPtr, TensorId> constants_;  // keeps the arrays, so that no other has their address
  std::vector<std::string> problems_;
  uint32_t dropouts_ = 0;
  int64_t spent_ = 0;
};

// The axis that holds the batch and, for a shape with `batch` in it; -1 if there is none.
int BatchAxis(const Shape& shape, int64_t outer, int64_t batch);
// `outer` of `to`, made of `from` by an op that keeps the axes but may change other sizes.
int64_t OuterAfter(const Shape& from, int64_t outer, const Shape& to, int64_t batch);

// What an op of the file is imported with.
struct OpContext {
  Importer& importer;
  const NodeProto& node;
  std::string name;  // for tensors and errors
  const std::vector<const Value*>& inputs;

  Graph* graph() const { return importer.graph(); }
  bool has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const Value& in(size_t i) const { return *inputs[i]; }
  absl::StatusOr<TensorId> Tensor(size_t i) const { return importer.Tensor(in(i)); }
  Shape shape(size_t i) const { return importer.ShapeOf(in(i)); }
  // Whole numbers that newer opsets take as an input and older ones as an attribute.
  absl::StatusOr<std::optional<std::vector<int64_t>>> Ints(const char* attribute, size_t i) const;
  absl::Status Unsupported(const std::string& what) const;
  // A tensor whose batch lies where that of input 0 lies.
  Value Like(TensorId tensor, size_t i = 0) const;
};
using Imported = absl::StatusOr<std::vector<Value>>;
using OpImport = Imported (*)(const OpContext& context);

// Running statistics, by name: they follow the data.
std::set<std::string> Statistics(const GraphProto& graph);

// Their sum, with broadcasting.
Imported AddTwo(const OpContext& c, const Value& a, const Value& b);

// One file each: the ops of a kind, by their names in ONNX.
using OpTable = std::map<std::string, OpImport>;
void AddAveragePools(OpTable* table);
void AddImageOps(OpTable* table);
void AddLayerOps(OpTable* table);
void AddElementOps(OpTable* table);
void AddMovingOps(OpTable* table);
void AddRecurrentOps(OpTable* table);

}  // namespace psgd::onnx
