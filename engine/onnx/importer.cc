#include "engine/onnx/importer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/bytes.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/fuse.h"
#include "engine/onnx/left_out.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

constexpr size_t kMostProblems = 50;  // in one error

OpTable MakeTable() {
  OpTable table;
  AddArithmeticOps(&table);
  AddEinsum(&table);
  AddImageOps(&table);
  AddResize(&table);
  AddLayerOps(&table);
  AddElementOps(&table);
  AddMovingOps(&table);
  AddRecurrentOps(&table);
  return table;
}

// Whether the op is supported at all, for some inputs.
bool IsKnown(const NodeProto& node) {
  return Table().count(node.op_type()) > 0 || Folds(node) || node.op_type() == "Shape" ||
         node.op_type() == "Size";
}

// Whether the op keeps tokens unchanged (as a Reshape to the same shape), turns them, or looks them
// up. `turned`: the tokens are T N.
bool TakesTokens(const NodeProto& node, size_t input, bool turned) {
  const std::string& op = node.op_type();
  if (op == "Identity" || op == "Cast" || op == "Transpose") return true;
  if (op == "Gather") return input == 1;
  return !turned &&
         (op == "Reshape" || ((op == "EmbeddingBag" || op == "PaddedSoftmax") && input == 1));
}

}  // namespace

const OpTable& Table() {
  static const OpTable* const kTable = new OpTable(MakeTable());
  return *kTable;
}

std::vector<int> LastTwoExchanged(size_t rank) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[rank - 2], order[rank - 1]);
  return order;
}

int BatchAxis(const Shape& shape, int64_t outer, int64_t batch) {
  if (outer == kNoBatch) return -1;
  int first = -1, exact = -1;  // the first axis that may hold the batch; one that begins with it
  int64_t before = 1;
  for (int axis = 0; axis < static_cast<int>(shape.size()) && before <= outer; ++axis) {
    if (outer % before == 0 && shape[axis] % (outer / before * batch) == 0) {
      if (first < 0) first = axis;
      if (before == outer && shape[axis] == batch) return axis;
      if (before == outer && exact < 0) exact = axis;
    }
    before *= shape[axis];
  }
  // A batch of one leaves no trace in the sizes. If time comes first and there are two axes, time
  // and batch share an axis (T*1 C). With more axes the batch shares the next axis, as heads
  // (T 1*H D).
  const bool joined = batch > 1 || outer == 1 || shape.size() == 2;
  return joined || exact < 0 ? first : exact;
}

int64_t OuterAfter(const Shape& from, int64_t outer, const Shape& to, int64_t batch) {
  const int axis = BatchAxis(from, outer, batch);
  if (axis < 0 || axis >= static_cast<int>(to.size())) return outer;
  const auto product = [axis](const Shape& shape) {
    return std::accumulate(shape.begin(), shape.begin() + axis, int64_t{1}, std::multiplies<>());
  };
  return outer / product(from) * product(to);
}

Shape Importer::ShapeOf(const Value& value) const {
  if (value.tensor == kNoTensor) return value.array->shape;
  if (value.scalar) return {};
  const Shape& stored = model_.graph.shape(value.tensor);
  Shape shape;
  for (const int axis : value.order) shape.push_back(stored[axis]);
  return value.order.empty() ? stored : shape;
}

Shape Importer::FileShapeOf(const Value& value) const {
  Shape shape = ShapeOf(value);
  const int axis = BatchAxis(shape, value.outer, batch());
  if (axis >= 0) shape[axis] = shape[axis] / batch() * file_batch_;
  return shape;
}

absl::StatusOr<TensorId> Importer::NewParameter(const Value& value, bool statistic) {
  const auto [place, added] = parameters_.emplace(value.parameter, kNoTensor);
  if (!added) return place->second;
  const Array& array = *value.array;
  const Shape shape = array.shape.empty() ? Shape{1} : array.shape;
  if (TooLarge(shape)) {
    parameters_.erase(place);
    return InvalidArgumentError(SafeName(value.parameter), ": ", ShapeText(shape),
                                " are not weights");
  }
  Initial initial = {.kind = Initial::Kind::kGiven};
  initial.checksum = ChecksumOf(std::as_bytes(std::span(array.reals)));
  place->second = model_.graph.AddTensor(
      {.name = value.parameter, .shape = shape, .wants_gradient = !statistic, .external = true});
  model_.graph.parameters.push_back({.value = place->second,
                                     .statistic = statistic,
                                     .decay = !statistic && shape.size() > 1,
                                     .initial = initial});
  return place->second;
}

absl::StatusOr<TensorId> Importer::Statistic(const Value& value) {
  if (value.array == nullptr || value.parameter.empty()) {
    return absl::UnimplementedError("running statistics must be initializers of the file");
  }
  if (training() && parameters_.count(value.parameter) > 0) {
    return absl::UnimplementedError(
        absl::StrCat(SafeName(value.parameter), " is the statistic of two normalisations"));
  }
  return NewParameter(value, /*statistic=*/true);
}

absl::Status Importer::Spend(int64_t elements) {
  constexpr int64_t kBudget = int64_t{1} << 27;
  if (elements > kBudget - spent_) {
    return ResourceExhaustedError(
        "needs too many known values: what this file has computed while importing, as masks and "
        "positions, are more than ",
        kBudget, " in all; store them as initializers");
  }
  spent_ += elements;
  return absl::OkStatus();
}

absl::StatusOr<TensorId> Importer::MakeConstant(const std::string& name, Shape shape,
                                                std::vector<float> values) {
  const Constant op = {std::make_shared<const std::vector<float>>(std::move(values))};
  return AddConstant(&model_.graph, name, op, std::move(shape));
}

// All nodes that read the array share one tensor.
absl::StatusOr<TensorId> Importer::ConstantOf(const ArrayPtr& array) {
  if (const auto found = constants_.find(array); found != constants_.end()) {
    return found->second;
  }
  if (!array->real() || TooLarge(array->shape)) {
    return absl::UnimplementedError("whole numbers are not values that a network computes with");
  }
  const Shape shape = array->shape.empty() ? Shape{1} : array->shape;
  PSGD_ASSIGN_OR_RETURN(const TensorId tensor, MakeConstant("constant", shape, array->reals));
  constants_[array] = tensor;
  return tensor;
}

// All nodes that read the tensor in this order share one.
absl::StatusOr<TensorId> Importer::TransposeOf(TensorId tensor, const std::vector<int>& order) {
  const auto key = std::pair(tensor, order);
  if (const auto found = transposed_.find(key); found != transposed_.end()) return found->second;
  const std::string name = model_.graph.tensors[tensor].name + ".transposed";
  PSGD_ASSIGN_OR_RETURN(const TensorId made, AddTranspose(&model_.graph, name, {order}, tensor));
  transposed_[key] = made;
  return made;
}

absl::StatusOr<TensorId> Importer::Tensor(const Value& value) {
  TensorId tensor = value.tensor;
  if (tensor == kNoTensor && !value.parameter.empty()) {
    PSGD_ASSIGN_OR_RETURN(tensor, NewParameter(value, /*statistic=*/false));
  } else if (tensor == kNoTensor) {
    PSGD_ASSIGN_OR_RETURN(tensor, ConstantOf(value.array));
  }
  Graph* g = &model_.graph;
  const std::string name = g->tensors[tensor].name;
  if (!value.order.empty()) {
    PSGD_ASSIGN_OR_RETURN(tensor, TransposeOf(tensor, value.order));
  }
  if (value.scale != 1) {
    const Activation scaled = {Activation::Kind::kLinear, value.scale};
    PSGD_ASSIGN_OR_RETURN(tensor, AddActivation(g, name + ".scaled", scaled, tensor));
  }
  if (value.mask != nullptr) {
    PSGD_ASSIGN_OR_RETURN(const TensorId mask, ConstantOf(value.mask));
    PSGD_ASSIGN_OR_RETURN(tensor, AddRowBias(g, name + ".masked", tensor, mask));
  }
  return tensor;
}

absl::StatusOr<std::optional<std::vector<int64_t>>> OpContext::Ints(const char* attribute,
                                                                    size_t i) const {
  std::optional<std::vector<int64_t>> ints;
  if (FindAttribute(node, attribute) != nullptr) ints = IntsAttribute(node, attribute);
  if (!has(i)) return ints;
  if (!in(i).known() || in(i).array->real()) {
    return Unsupported(absl::StrCat(attribute, " depends on the input"));
  }
  return in(i).array->ints;
}

absl::Status OpContext::Unsupported(const std::string& what) const {
  return absl::UnimplementedError(what);
}

Imported OpContext::Made(const absl::StatusOr<TensorId>& tensor) const {
  PSGD_RETURN_IF_ERROR(tensor.status());
  return std::vector<Value>{Like(*tensor)};
}

Value OpContext::Like(TensorId tensor, size_t i) const {
  const int64_t outer = OuterAfter(shape(i), in(i).outer, graph()->shape(tensor), importer.batch());
  return {.tensor = tensor, .outer = outer};
}

absl::StatusOr<std::vector<Value>> Importer::ImportNode(const NodeProto& node,
                                                        std::vector<const Value*>& inputs) {
  if (!node.domain().empty() && node.domain() != "ai.onnx" && node.domain() != kOwnDomain) {
    return absl::UnimplementedError(
        absl::StrCat("is of the operator set ", SafeName(node.domain())));
  }
  const OpContext context = {*this, node, SafeName(node.output(0)), inputs};
  if (node.op_type() == "Shape" || node.op_type() == "Size") {
    if (!context.has(0)) return absl::InvalidArgumentError("lacks an input");
    return FoldShape(node, FileShapeOf(context.in(0)));
  }
  bool known = true;
  std::vector<ArrayPtr> arrays;
  for (const Value* value : inputs) {
    known = known && (value == nullptr || value->known());
    arrays.push_back(value == nullptr ? nullptr : value->array);
  }
  if (known && Folds(node)) {
    PSGD_ASSIGN_OR_RETURN(const std::vector<ArrayPtr> folded, Fold(node, arrays, opset()));
    std::vector<Value> values;
    for (const ArrayPtr& array : folded) {
      if (node.op_type() == "Constant" &&
          std::ranges::any_of(array->reals, [](float value) { return std::isnan(value); })) {
        return absl::InvalidArgumentError("holds NaN");
      }
      PSGD_RETURN_IF_ERROR(Spend(array->count()));
      values.push_back({.array = array});
    }
    return values;
  }
  const auto op = Table().find(node.op_type());
  if (op == Table().end()) {
    return absl::UnimplementedError(
        Folds(node) ? "is only supported where its values do not depend on the input"
                    : "is not supported");
  }
  if (!context.has(0)) return absl::InvalidArgumentError("lacks an input");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool tokens = context.has(i) && IsTokens(context.in(i));
    if (tokens && !TakesTokens(node, i, !context.in(i).order.empty())) {
      return OfTokens(context, i);
    }
  }
  return op->second(context);
}

// What a node computes of one token at a time: a table has the result of each token.
absl::StatusOr<std::vector<Value>> Importer::OfTokens(const OpContext& c, size_t input) {
  bool table = FoldsElements(c.node);
  std::vector<ArrayPtr> arrays;
  std::vector<int64_t> tokens(static_cast<size_t>(vocabulary()));
  std::iota(tokens.begin(), tokens.end(), 0);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool number = c.has(i) && c.in(i).known() && c.in(i).array->count() == 1;
    table = table && (i == input || number);
    arrays.push_back(i == input ? MakeInts({vocabulary()}, tokens)
                     : number   ? Pick(*c.in(i).array, {0}, {})
                                : nullptr);
  }
  absl::StatusOr<std::vector<ArrayPtr>> results = std::vector<ArrayPtr>();
  if (table) results = Fold(c.node, arrays, opset());
  if (!table || !results.ok() || results->size() != 1 ||
      (*results)[0]->shape != Shape{vocabulary()}) {
    return absl::UnimplementedError("computes with tokens, which only index tables (Gather)");
  }
  const Array& result = *(*results)[0];
  PSGD_RETURN_IF_ERROR(Spend(vocabulary()));
  const std::vector<float> reals =
      result.real() ? result.reals : std::vector<float>(result.ints.begin(), result.ints.end());
  PSGD_ASSIGN_OR_RETURN(const TensorId rows,
                        MakeConstant(c.name + ".table", {vocabulary(), 1}, reals));
  PSGD_ASSIGN_OR_RETURN(const TensorId made,
                        AddEmbedding(graph(), c.name, c.in(input).tensor, rows));
  const Shape shape = graph()->shape(c.in(input).tensor);
  PSGD_ASSIGN_OR_RETURN(TensorId flat, AddReshape(graph(), c.name + ".flat", made, shape));
  if (!c.in(input).order.empty()) {
    PSGD_ASSIGN_OR_RETURN(flat, AddTranspose(graph(), c.name + ".turned", {{1, 0}}, flat));
  }
  return std::vector<Value>{c.Like(flat, input)};
}

void Importer::ImportAll() {
  for (const NodeProto& node : file_.graph().node()) {
    if (!Needs(node)) continue;
    if (file_.IsSecondName(node)) continue;
    std::vector<const Value*> inputs;
    bool missing = false;
    for (const std::string& input : node.input()) {
      inputs.push_back(input.empty() ? nullptr : &values_[input]);
      missing = missing || (inputs.back() != nullptr && inputs.back()->missing);
    }
    absl::StatusOr<std::vector<Value>> made = std::vector<Value>();
    if (!missing) made = ImportNode(node, inputs);
    if (missing && !IsKnown(node)) made = absl::UnimplementedError("is not supported");
    if (made.ok() && !missing) {
      for (const Value& value : *made) {
        if (value.tensor == kNoTensor) continue;
        const Shape& shape = model_.graph.shape(value.tensor);
        if (shape.empty() || TooLarge(shape)) {
          made = absl::InvalidArgumentError("makes a tensor that is empty or too large");
          break;
        }
      }
    }
    if (made.ok() && !missing && MakesScalars(node, inputs)) {
      for (Value& value : *made) {
        value.scalar = value.tensor != kNoTensor && model_.graph.shape(value.tensor) == Shape{1};
      }
    }
    if (!made.ok()) problems_.push_back({&node, std::string(made.status().message())});
    if (absl::IsResourceExhausted(made.status())) return;  // further nodes would waste time
    for (int i = 0; i < node.output_size(); ++i) {
      const bool there = !missing && made.ok() && i < static_cast<int>(made->size());
      if (!there && !missing && made.ok() && Needs(node, i)) {
        problems_.push_back(
            {&node, absl::StrCat("its output ", i + 1, ", ", SafeName(node.output(i)),
                                 ", is used, which psgd does not make")});
      }
      values_[node.output(i)] = there ? (*made)[i] : Assumed(node.output(i));
    }
  }
  if (training()) AddSpoiledChoices();
}

void Importer::AddSpoiledChoices() {
  std::vector<TensorId> made;
  for (const auto& [node, tensor] : choices_) made.push_back(tensor);
  for (SpoiledChoice& spoiled : SpoiledChoices(model_.graph, made)) {
    problems_.push_back({choices_[spoiled.choice].first, std::move(spoiled.why)});
  }
}

bool Importer::MakesScalars(const NodeProto& node, const std::vector<const Value*>& inputs) const {
  return node.op_type() != "Unsqueeze" && std::ranges::all_of(inputs, [&](const Value* value) {
           return value == nullptr || ShapeOf(*value).empty();
         });
}

bool Importer::Needs(const NodeProto& node) const {
  return std::any_of(node.output().begin(), node.output().end(),
                     [&](const auto& name) { return needed_.count(name) > 0; });
}

Value Importer::Assumed(const std::string& name) {
  const auto& infos = file_.graph().value_info();
  const auto info = std::find_if(infos.begin(), infos.end(),
                                 [&](const auto& said) { return said.name() == name; });
  if (!assumes_ || info == infos.end()) return {.missing = true};
  const auto& type = info->type().tensor_type();
  Shape shape;
  for (const auto& dim : type.shape().dim()) {
    // Only the batch, the first axis, may be open.
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : shape.empty() ? file_batch_ : 0);
  }
  if (type.elem_type() != TensorProto::FLOAT || shape.empty() || TooLarge(shape)) {
    return {.missing = true};
  }
  const bool has_batch = shape[0] == file_batch_;
  if (has_batch) shape[0] = batch();
  const TensorId made =
      model_.graph.AddTensor({.name = SafeName(name), .shape = shape, .external = true});
  return {.tensor = made, .outer = has_batch ? 1 : kNoBatch};
}

absl::StatusOr<std::vector<Problem>> Importer::FindProblems() {
  assumes_ = true;
  PSGD_RETURN_IF_ERROR(Start());
  PSGD_RETURN_IF_ERROR(CheckLost());
  ImportAll();
  if (problems_.empty()) PSGD_RETURN_IF_ERROR(Finish().status());
  return problems_;
}

absl::StatusOr<ModelGraph> Importer::Run() {
  PSGD_RETURN_IF_ERROR(Start());
  ImportAll();
  if (!problems_.empty()) {
    std::vector<std::string> told;
    for (const Problem& problem : problems_) {
      if (told.size() == kMostProblems) break;
      told.push_back(absl::StrCat(NodeLabel(*problem.node), ": ", problem.why));
    }
    return InvalidArgumentError(
        "the model ", file_.path(), " has ", problems_.size(),
        problems_.size() == 1 ? " node" : " nodes", " that cannot be imported:\n  ",
        absl::StrJoin(told, "\n  "),
        "\nreplace them in the network and export it again; docs/engine.md lists what is taken");
  }
  return Finish();
}

}  // namespace psgd::onnx
