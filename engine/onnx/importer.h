// Turns the nodes of an ONNX file into nodes of a Graph, one after the other. The importer computes
// values that do not depend on the input (shapes, masks). Trained values become parameters.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "engine/graph/builder.h"
#include "engine/onnx/onnx_file.h"
#include "proto/config.pb.h"

namespace psgd::onnx {

struct ImportOptions {
  Mode mode = Mode::kTrain;
  int batch = 1;
  SampleShape shape = {};
  ModelConfig config = {};  // frozen weights and the loss
};

inline constexpr int64_t kNoBatch = -1;

// The meaning of a name while importing.
struct Value {
  ArrayPtr array = {};         // a known value, in the file's sizes
  std::string parameter = {};  // the array is its initial value; empty: the array is not trained
  TensorId tensor = kNoTensor;
  // The product of the sizes before the batch axis: 1 for N T C, T for T N C. It finds the batch
  // axis in a file with a fixed batch. kNoBatch: no axis depends on the batch.
  int64_t outer = kNoBatch;
  // Work that is still to do on the tensor, because the next op may do it at no cost:
  std::vector<int> order = {};  // transpose it (empty: no),
  float scale = 1;              // then multiply it,
  ArrayPtr mask = {};           // then add this to its last axes.
  bool missing = false;         // its node could not be imported
  bool scalar = false;  // the tensor has one element and one axis; in the file it has no axis

  // Sets `scalar`, and returns the tensor's shape for a shape in the file. A tensor has an axis.
  Shape WithAxis(const Shape& shape) {
    scalar = shape.empty();
    return scalar ? Shape{1} : shape;
  }
  // Transposes the value once more, before its scale. REQUIRES: it has no mask.
  void Transpose(const std::vector<int>& next) {
    std::vector<int> all = next;
    for (int& axis : all) axis = order.empty() ? axis : order[axis];
    order = std::ranges::is_sorted(all) ? std::vector<int>() : all;
  }
  bool known() const { return array != nullptr && parameter.empty(); }
};

// The order of `rank` axes that exchanges the last two.
std::vector<int> LastTwoExchanged(size_t rank);

// A node that cannot be imported.
struct Problem {
  const NodeProto* node = nullptr;
  std::string why = {};
};

struct OpContext;

// Not thread-safe. REQUIRES: the file outlives it.
class Importer {
 public:
  Importer(const OnnxFile& file, ImportOptions options)
      : file_(file), options_(std::move(options)) {}
  absl::StatusOr<ModelGraph> Run();
  // Called instead of Run. Returns all problems of nodes. Where a node cannot be imported but the
  // file says the shape of its result, goes on with such a tensor. An error is of the file as a
  // whole.
  absl::StatusOr<std::vector<Problem>> FindProblems();
  // After FindProblems. Whether the output depends on the node.
  bool Needs(const NodeProto& node) const;
  // Called instead of Run. Finds the output, the values that it depends on, and which of them are
  // trained.
  absl::Status ChooseTrained();
  // After ChooseTrained. An error if a marked parameter of several elements gets a gradient in
  // PyTorch alone.
  absl::Status CheckLost() const;
  // The file's inputs on which the output depends, in their order; of a loss in the file, no
  // labels. All inputs if ChooseTrained, here or within another call, has not found the output.
  std::vector<const ValueInfoProto*> Inputs() const;
  // After FindProblems or ChooseTrained. What a user should know of the weights, each note a line
  // that names at most `most` weights.
  std::vector<std::string> Notes(size_t most = 20) const;
  // After FindProblems or ChooseTrained. The trained initializers on which the output depends.
  std::map<std::string, ArrayPtr> Trained() const;
  // After FindProblems. Elements of the initializers on which the output depends.
  int64_t CountWeights() const;

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
  // The value as a tensor of the graph, with transpose, scale and mask applied.
  absl::StatusOr<TensorId> Tensor(const Value& value);
  // A constant in this run's sizes.
  absl::StatusOr<TensorId> MakeConstant(const std::string& name, Shape shape,
                                        std::vector<float> values);
  // Notes that the node, a Where, made the tensor by choosing.
  void AddChoice(const NodeProto& node, TensorId made) { choices_.push_back({&node, made}); }
  // Counts further known values. An error if all together are above the limit; the import then
  // ends.
  absl::Status Spend(int64_t elements);
  // A statistic of batch normalization: workers average it and do not train it.
  absl::StatusOr<TensorId> Statistic(const Value& value);
  // Whether a node that the model's output depends on uses output `i` of this node.
  bool Needs(const NodeProto& node, int i) const {
    return i < node.output_size() && needed_.count(node.output(i)) > 0;
  }
  // The shape in this run and in the file. They differ in the axis of the batch.
  Shape ShapeOf(const Value& value) const;
  Shape FileShapeOf(const Value& value) const;

 private:
  absl::Status Start();
  absl::Status FindOutput();
  absl::Status CheckFrozen() const;
  absl::Status CheckNumbers() const;
  // Checks that a dropped last softmax is over the classes. (The loss includes a softmax.)
  absl::Status CheckProbabilities(const Shape& logits, int64_t classes_axis) const;
  absl::Status CheckInput(const ValueInfoProto& input, const psgd::Tensor& sample, Shape* shape);
  void FindNeeded();
  void FindTrained();
  void FindReached();
  // Why an initializer is not trained that is no statistic and that config.frozen() does not name;
  // null: it is trained.
  const char* WhyHeld(const std::string& name, const Array& array) const;
  // Untrained real values on which the output depends, each with its shape, by the reason. Numbers
  // are left out if they are factors, divisors or bounds of the network.
  std::map<std::string, std::vector<std::string>> HeldFixed() const;
  // Weights that train apart though the file has their values once.
  std::vector<std::string> TrainedApart() const;
  // Weights that the file marks neither as parameters nor as buffers.
  std::vector<std::string> TrainedInPlace() const;
  absl::StatusOr<std::vector<Value>> ImportNode(const NodeProto& node,
                                                std::vector<const Value*>& inputs);
  absl::StatusOr<std::vector<Value>> OfTokens(const OpContext& context, size_t input);
  void ImportAll();
  // Whether the results have no axis, as all inputs.
  bool MakesScalars(const NodeProto& node, const std::vector<const Value*>& inputs) const;
  // Adds the choices through which training would get gradients that are NaN.
  void AddSpoiledChoices();
  absl::StatusOr<ModelGraph> Finish();
  // A tensor of the shape that the file says for this name.
  Value Assumed(const std::string& name);
  absl::StatusOr<TensorId> NewParameter(const Value& value, bool statistic);
  absl::StatusOr<TensorId> ConstantOf(const ArrayPtr& array);
  absl::StatusOr<TensorId> TransposeOf(TensorId tensor, const std::vector<int>& order);

  const OnnxFile& file_;
  const ImportOptions options_;
  ModelGraph model_;
  std::string output_;                        // the name of the logits
  const NodeProto* probabilities_ = nullptr;  // the softmax of the logits; null: none
  int64_t file_batch_ = 1;
  std::set<std::string> needed_;   // names that the output depends on
  std::set<std::string> trained_;  // initializers
  std::set<std::string> wanted_,
      chosen_;                     // values that reach an op's weights; a branch of a choice
  std::set<std::string> reached_;  // values that get a gradient of the loss
  std::set<std::string> lost_;     // values that get one in PyTorch, which psgd does not pass on
  std::set<std::string> angles_;   // values that serve only a sine or cosine
  std::map<std::string, Value> values_;
  std::map<std::string, TensorId> parameters_;
  std::map<ArrayPtr, TensorId> constants_;  // owns the arrays, so addresses are not reused
  std::map<std::pair<TensorId, std::vector<int>>, TensorId> transposed_;
  std::vector<std::pair<const NodeProto*, TensorId>> choices_;
  std::vector<Problem> problems_;
  bool assumes_ = false;  // the shapes of results of nodes that cannot be imported
  uint32_t dropouts_ = 0;
  int64_t spent_ = 0;
};

// The axis of the batch in a shape that contains `batch`; -1: none.
int BatchAxis(const Shape& shape, int64_t outer, int64_t batch);
// `outer` of shape `to`, which an op made from `from`. The op keeps axes, but may change other
// sizes.
int64_t OuterAfter(const Shape& from, int64_t outer, const Shape& to, int64_t batch);

using Imported = absl::StatusOr<std::vector<Value>>;

// The arguments for the import of one node.
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
  // Whole numbers from input `i` (newer opsets) or from an attribute (older opsets).
  absl::StatusOr<std::optional<std::vector<int64_t>>> Ints(const char* attribute, size_t i) const;
  absl::Status Unsupported(const std::string& what) const;
  // The refusal of an op whose result for a sample would depend on the other samples.
  absl::Status CombinesSamples() const { return Unsupported("combines the samples of a batch"); }
  // The tensor as a value whose batch is in the same axis as in input `i`.
  Value Like(TensorId tensor, size_t i = 0) const;
  // The result of an op that made one tensor, like input 0.
  Imported Made(const absl::StatusOr<TensorId>& tensor) const;
};
using OpImport = Imported (*)(const OpContext& context);

// The names of running statistics, which follow the data.
std::set<std::string> Statistics(const GraphProto& graph);

// The sum of a and b, with broadcasting.
Imported AddTwo(const OpContext& c, const Value& a, const Value& b);

Imported ImportAveragePool(const OpContext& c);
// A Gather of known indices along an axis.
Imported GatherKnown(const OpContext& c, int axis);

// Ops by their ONNX names. Each Add... function has a file of its own.
using OpTable = std::map<std::string, OpImport>;
const OpTable& Table();
void AddArithmeticOps(OpTable* table);
void AddEinsum(OpTable* table);
void AddImageOps(OpTable* table);
void AddResize(OpTable* table);
void AddLayerOps(OpTable* table);
void AddElementOps(OpTable* table);
void AddMovingOps(OpTable* table);
void AddRecurrentOps(OpTable* table);

}  // namespace psgd::onnx
