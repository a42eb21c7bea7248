// Ops that only move elements. If the file was exported with a fixed batch, their shapes contain
// it. The axis of the batch then gets this run's batch.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

// Reshapes to `shape`, in the file's sizes. A scale stays for a later op if there is no mask.
Imported Reshaped(const OpContext& c, Shape shape) {
  Value value = c.in(0);
  const int64_t outer = value.outer;
  if (outer != kNoBatch) {
    const int axis = BatchAxis(shape, outer, c.importer.file_batch());
    if (axis < 0) {
      return c.Unsupported(absl::StrCat("spreads the batch over several axes (",
                                        ShapeText(c.importer.FileShapeOf(value)), " to ",
                                        ShapeText(shape), ")"));
    }
    shape[axis] = shape[axis] / c.importer.file_batch() * c.importer.batch();
  }
  float scale = 1;
  if (value.mask == nullptr) std::swap(scale, value.scale);
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.importer.Tensor(value));
  if (c.graph()->shape(x) == shape)
    return std::vector<Value>{{.tensor = x, .outer = outer, .scale = scale}};
  if (c.importer.IsTokens(c.in(0))) return c.Unsupported("reshapes tokens");
  PSGD_ASSIGN_OR_RETURN(const TensorId y, AddReshape(c.graph(), c.name, x, shape));
  return std::vector<Value>{{.tensor = y, .outer = outer, .scale = scale}};
}

Imported ImportReshape(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const auto to, c.Ints("shape", 1));
  if (!to) return absl::InvalidArgumentError("lacks a shape");
  PSGD_ASSIGN_OR_RETURN(Shape shape, ReshapedTo(c.importer.FileShapeOf(c.in(0)), *to,
                                                IntAttribute(c.node, "allowzero", 0) != 0));
  return Reshaped(c, std::move(shape));
}

// Reshapes by the output shape of the node: Flatten, Squeeze or Unsqueeze.
Imported ImportByShape(const OpContext& c) {
  const Shape in = c.importer.FileShapeOf(c.in(0));
  if (c.node.op_type() == "Flatten") {
    const int64_t given = IntAttribute(c.node, "axis", 1), rank = static_cast<int64_t>(in.size());
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis > rank) return absl::InvalidArgumentError("has no such axis");
    const int64_t rows = ElementCount(Shape(in.begin(), in.begin() + axis));
    return Reshaped(c, {rows, ElementCount(in) / rows});
  }
  PSGD_ASSIGN_OR_RETURN(const auto given, c.Ints("axes", 1));
  const std::vector<int64_t> named = given.value_or(std::vector<int64_t>());
  const bool squeeze = c.node.op_type() == "Squeeze";
  const size_t rank = in.size() + (squeeze ? 0 : named.size());
  PSGD_ASSIGN_OR_RETURN(const std::vector<int> axes, CheckedAxes(named, rank));
  Shape shape;
  auto next = in.begin();
  for (int axis = 0; axis < static_cast<int>(rank); ++axis) {
    const bool one = std::count(axes.begin(), axes.end(), axis) > 0;
    if (!squeeze) {
      shape.push_back(one ? 1 : *next++);
    } else if (one && in[axis] != 1) {
      return absl::InvalidArgumentError("squeezes an axis of more than one element");
    } else if (!one && (given || in[axis] != 1)) {
      shape.push_back(in[axis]);
    }
  }
  return Reshaped(c, std::move(shape));
}

Imported ImportTranspose(const OpContext& c) {
  Value value = c.in(0);
  const Shape in = c.shape(0);
  std::vector<int64_t> reversed;
  for (size_t i = in.size(); i-- > 0;) reversed.push_back(static_cast<int64_t>(i));
  PSGD_ASSIGN_OR_RETURN(const auto order,
                        CheckedAxes(IntsAttribute(c.node, "perm", reversed), in.size()));
  if (order.size() != in.size()) return absl::InvalidArgumentError("does not order all axes");
  if (value.outer == kNoBatch && value.mask == nullptr && order == std::vector<int>{1, 0}) {
    if (value.tensor == kNoTensor) {
      Value unscaled = value;
      unscaled.scale = 1;
      PSGD_ASSIGN_OR_RETURN(value.tensor, c.importer.Tensor(unscaled));
    }
    value.array = nullptr;
    value.parameter.clear();
    value.flipped = !value.flipped;
    return std::vector<Value>{value};
  }
  float scale = 1;
  if (value.mask == nullptr) std::swap(scale, value.scale);
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.importer.Tensor(value));
  PSGD_ASSIGN_OR_RETURN(const TensorId y, AddTranspose(c.graph(), c.name, {order}, x));
  Value made = {.tensor = y, .scale = scale};
  if (const int axis = BatchAxis(in, value.outer, c.importer.batch()); axis >= 0) {
    const auto before = [](const Shape& shape, int64_t end) {
      return std::accumulate(shape.begin(), shape.begin() + end, int64_t{1}, std::multiplies<>());
    };
    const int64_t at = std::find(order.begin(), order.end(), axis) - order.begin();
    made.outer = value.outer / before(in, axis) * before(c.graph()->shape(y), at);
  }
  return std::vector<Value>{made};
}

absl::Status NotTheBatch(const OpContext& c, const Shape& in, int axis) {
  if (BatchAxis(in, c.in(0).outer, c.importer.batch()) != axis) return absl::OkStatus();
  return c.Unsupported("cuts the batch into pieces");
}

Imported ImportSlice(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const auto starts, c.Ints("starts", 1));
  PSGD_ASSIGN_OR_RETURN(const auto ends, c.Ints("ends", 2));
  PSGD_ASSIGN_OR_RETURN(const auto axes_given, c.Ints("axes", 3));
  PSGD_ASSIGN_OR_RETURN(const auto steps, c.Ints("steps", 4));
  if (!starts || !ends) return absl::InvalidArgumentError("lacks where it starts or ends");
  std::vector<int64_t> all(starts->size());
  std::iota(all.begin(), all.end(), 0);
  const Shape in = c.shape(0);
  PSGD_ASSIGN_OR_RETURN(const auto axes, CheckedAxes(axes_given.value_or(all), in.size()));
  if (ends->size() != starts->size() || axes.size() != starts->size() ||
      (steps && steps->size() != starts->size())) {
    return absl::InvalidArgumentError("has unequal numbers of starts, ends, axes and steps");
  }
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    PSGD_ASSIGN_OR_RETURN(const Range range, SliceRange(in[axes[i]], (*starts)[i], (*ends)[i],
                                                        steps ? (*steps)[i] : 1));
    if (range.length == in[axes[i]] && range.step == 1) continue;
    if (range.step != 1 || range.length < 1) {
      return c.Unsupported("takes ranges without steps, of at least one element");
    }
    PSGD_RETURN_IF_ERROR(NotTheBatch(c, in, axes[i]));
    PSGD_ASSIGN_OR_RETURN(x, AddSlice(c.graph(), c.name, {axes[i], range.begin}, range.length, x));
  }
  return std::vector<Value>{c.Like(x)};
}

Imported ImportSplit(const OpContext& c) {
  const Shape in = c.shape(0);
  PSGD_ASSIGN_OR_RETURN(const auto axes, CheckedAxes({IntAttribute(c.node, "axis", 0)}, in.size()));
  PSGD_RETURN_IF_ERROR(NotTheBatch(c, in, axes[0]));
  PSGD_ASSIGN_OR_RETURN(const auto given, c.Ints("split", 1));
  const int64_t parts = c.node.output_size();
  const int64_t size = in[axes[0]];
  std::vector<int64_t> lengths = given.value_or(std::vector<int64_t>(parts, size / parts));
  if (static_cast<int64_t>(lengths.size()) != parts || (!given && size % parts != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("does not split ", size, " into ", parts));
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  std::vector<Value> values;
  int64_t begin = 0;
  for (int64_t length : lengths) {
    if (length < 1 || length > size - begin)
      return absl::InvalidArgumentError("splits beyond the end");
    PSGD_ASSIGN_OR_RETURN(const TensorId y,
                          AddSlice(c.graph(), c.name, {axes[0], begin}, length, x));
    values.push_back(c.Like(y));
    begin += length;
  }
  if (begin != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("splits ", size, " into lengths of ", begin, " together"));
  }
  return values;
}

Imported ImportConcat(const OpContext& c) {
  std::vector<TensorId> parts;
  size_t main = 0;
  const Shape in = c.shape(0);
  PSGD_ASSIGN_OR_RETURN(const auto axes, CheckedAxes({IntAttribute(c.node, "axis", 0)}, in.size()));
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return absl::InvalidArgumentError("lacks an input");
    if (c.in(i).outer != kNoBatch && c.in(main).outer == kNoBatch) main = i;
    PSGD_ASSIGN_OR_RETURN(const TensorId part, c.Tensor(i));
    parts.push_back(part);
  }
  const Shape from = c.shape(main);
  if (BatchAxis(from, c.in(main).outer, c.importer.batch()) == axes[0]) {
    return c.Unsupported("appends to the batch");
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId y, AddConcat(c.graph(), c.name, {axes[0]}, parts));
  return std::vector<Value>{c.Like(y, main)};
}

Imported ImportPad(const OpContext& c) {
  if (TextAttribute(c.node, "mode", "constant") != "constant")
    return c.Unsupported("pads with a constant only");
  PSGD_ASSIGN_OR_RETURN(const auto pads, c.Ints("pads", 1));
  float outside = FloatAttribute(c.node, "value", 0);
  if (c.has(2)) {
    if (!c.in(2).known() || c.in(2).array->reals.size() != 1)
      return c.Unsupported("pads with one known number");
    outside = c.in(2).array->reals[0];
  }
  const Shape in = c.shape(0);
  if (!pads || pads->size() != 2 * in.size())
    return absl::InvalidArgumentError("lacks two numbers an axis");
  Shape before, after;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t first = (*pads)[i], last = (*pads)[i + in.size()];
    constexpr int64_t kMost = 1 << 24;
    if (first < 0 || last < 0 || first > kMost || last > kMost)
      return c.Unsupported("pads by negative or huge numbers");
    if (first + last > 0) PSGD_RETURN_IF_ERROR(NotTheBatch(c, in, static_cast<int>(i)));
    before.push_back(first);
    after.push_back(last);
  }
  if (std::all_of(pads->begin(), pads->end(), [](int64_t pad) { return pad == 0; })) {
    return std::vector<Value>{c.in(0)};
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  return c.Made(AddPad(c.graph(), c.name, {before, outside}, after, x));
}

}  // namespace

void AddMovingOps(OpTable* table) {
  (*table)["Reshape"] = ImportReshape;
  (*table)["Flatten"] = ImportByShape;
  (*table)["Squeeze"] = ImportByShape;
  (*table)["Unsqueeze"] = ImportByShape;
  (*table)["Transpose"] = ImportTranspose;
  (*table)["Slice"] = ImportSlice;
  (*table)["Split"] = ImportSplit;
  (*table)["Concat"] = ImportConcat;
  (*table)["Pad"] = ImportPad;
}

}  // namespace psgd::onnx
