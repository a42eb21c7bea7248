// Ops that only move elements. If the file was exported with a fixed batch, their shapes contain
// it. The axis of the batch then gets this run's batch.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/broadcast.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

// Reshapes to `shape`, in the file's sizes. If there is no mask, a scale stays for a later op, and
// so does an exchange of the last two axes if `shape` keeps them: PyTorch exchanges axes of keys
// between two such reshapes.
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
  Value made = {.outer = outer};
  shape = made.WithAxis(shape);
  if (value.mask == nullptr) {
    std::swap(made.scale, value.scale);
    const Shape in = c.importer.ShapeOf(value);
    if (shape.size() > 1 && in.size() > 1 && value.order == LastTwoExchanged(in.size()) &&
        EndsWith(shape, {in.end()[-2], in.back()})) {
      value.order.clear();
      made.order = LastTwoExchanged(shape.size());
      std::swap(shape.end()[-2], shape.back());
    }
  }
  PSGD_ASSIGN_OR_RETURN(made.tensor, c.importer.Tensor(value));
  if (c.graph()->shape(made.tensor) == shape) return std::vector<Value>{made};
  if (c.importer.IsTokens(c.in(0))) return c.Unsupported("reshapes tokens");
  PSGD_ASSIGN_OR_RETURN(made.tensor, AddReshape(c.graph(), c.name, made.tensor, shape));
  return std::vector<Value>{made};
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
  if (std::ranges::is_sorted(order)) return std::vector<Value>{value};
  if (c.importer.IsTokens(value) && in.size() != 2) {
    return c.Unsupported("orders tokens that have not two axes");
  }
  Value made = {.tensor = value.tensor, .order = value.order, .scale = value.scale};
  if (value.mask != nullptr || value.tensor == kNoTensor) {
    made = {};
    if (value.mask == nullptr) std::swap(made.scale, value.scale);
    PSGD_ASSIGN_OR_RETURN(made.tensor, c.importer.Tensor(value));
  }
  made.Transpose(order);
  if (const int axis = BatchAxis(in, value.outer, c.importer.batch()); axis >= 0) {
    const auto before = [](const Shape& shape, int64_t end) {
      return std::accumulate(shape.begin(), shape.begin() + end, int64_t{1}, std::multiplies<>());
    };
    const int64_t at = std::find(order.begin(), order.end(), axis) - order.begin();
    made.outer = value.outer / before(in, axis) * before(c.importer.ShapeOf(made), at);
  }
  return std::vector<Value>{made};
}

absl::Status NotTheBatch(const OpContext& c, const Shape& in, int axis) {
  if (BatchAxis(in, c.in(0).outer, c.importer.batch()) != axis) return absl::OkStatus();
  return c.Unsupported("cuts the batch into pieces");
}

// The elements with these known indices along an axis.
absl::StatusOr<TensorId> Taken(const OpContext& c, int axis, const std::vector<int64_t>& index,
                               TensorId x) {
  PSGD_RETURN_IF_ERROR(c.importer.Spend(static_cast<int64_t>(index.size())));
  return AddAxisMap(c.graph(), c.name + ".taken", axis,
                    TakingRows(index, c.graph()->shape(x)[axis]), x);
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
    if (range.length < 1) return c.Unsupported("takes no element");
    PSGD_RETURN_IF_ERROR(NotTheBatch(c, in, axes[i]));
    if (range.step != 1) {
      if (range.length > kLargestFolded) return c.Unsupported("takes too many elements in steps");
      std::vector<int64_t> index;
      for (int64_t k = 0; k < range.length; ++k) index.push_back(range.begin + k * range.step);
      PSGD_ASSIGN_OR_RETURN(x, Taken(c, axes[i], index, x));
      continue;
    }
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
  std::vector<int64_t> lengths;
  if (given) lengths = *given;
  // The last of equal parts may be smaller, from opset 18 on.
  const int64_t each = (size + parts - 1) / parts;
  for (int64_t i = 0; !given && i < parts; ++i) lengths.push_back(std::min(each, size - i * each));
  const bool uneven = !given && size % parts != 0 && c.importer.opset() < 18;
  if (static_cast<int64_t>(lengths.size()) != parts || uneven) {
    return InvalidArgumentError("does not split ", size, " into ", parts);
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
    return InvalidArgumentError("splits ", size, " into lengths of ", begin, " together");
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
  // A part for one sample is repeated for all, as a class token before the patches of an image.
  for (size_t i = 0; i < parts.size() && c.in(main).outer == 1 && axes[0] > 0; ++i) {
    Shape part = c.graph()->shape(parts[i]);
    if (c.in(i).outer != kNoBatch || part.size() != from.size() || part[0] != 1) continue;
    part[0] = from[0];
    PSGD_ASSIGN_OR_RETURN(parts[i], Spread(c, parts[i], part));
  }
  if (BatchAxis(from, c.in(main).outer, c.importer.batch()) == axes[0]) {
    return c.Unsupported("appends to the batch");
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId y, AddConcat(c.graph(), c.name, {axes[0]}, parts));
  return std::vector<Value>{c.Like(y, main)};
}

// The index of the element that lies `at` places from the first, where elements repeat outside.
int64_t Reflected(const std::string& mode, int64_t at, int64_t size) {
  if (mode == "edge") return std::clamp<int64_t>(at, 0, size - 1);
  if (mode == "wrap") return (at % size + size) % size;
  return at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
}

// Pads with elements of the tensor itself.
Imported PadByElements(const OpContext& c, const std::string& mode, const Shape& before,
                       const Shape& after) {
  const Shape in = c.shape(0);
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  for (int axis = 0; axis < static_cast<int>(in.size()); ++axis) {
    if (before[axis] == 0 && after[axis] == 0) continue;
    const bool reflects = mode == "reflect";
    if (reflects && std::max(before[axis], after[axis]) >= in[axis]) {
      return absl::InvalidArgumentError("reflects more elements than there are");
    }
    std::vector<int64_t> index;
    for (int64_t at = -before[axis]; at < in[axis] + after[axis]; ++at) {
      index.push_back(Reflected(mode, at, in[axis]));
    }
    PSGD_ASSIGN_OR_RETURN(x, Taken(c, axis, index, x));
  }
  return std::vector<Value>{c.Like(x)};
}

// The pads of all axes, also if the node names the axes that it pads (opset 18).
absl::StatusOr<std::vector<int64_t>> PadsOf(const OpContext& c, size_t rank) {
  PSGD_ASSIGN_OR_RETURN(const auto pads, c.Ints("pads", 1));
  PSGD_ASSIGN_OR_RETURN(const auto named, c.Ints("axes", 3));
  if (pads && !named) return *pads;
  if (!pads || pads->size() != 2 * named->size()) {
    return absl::InvalidArgumentError("lacks two numbers an axis");
  }
  PSGD_ASSIGN_OR_RETURN(const std::vector<int> axes, CheckedAxes(*named, rank));
  std::vector<int64_t> all(2 * rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    all[axes[i]] = (*pads)[i];
    all[axes[i] + rank] = (*pads)[i + axes.size()];
  }
  return all;
}

Imported ImportPad(const OpContext& c) {
  const std::string mode = TextAttribute(c.node, "mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return c.Unsupported("pads by mode " + SafeName(mode));
  }
  PSGD_ASSIGN_OR_RETURN(const std::vector<int64_t> pads, PadsOf(c, c.shape(0).size()));
  float outside = FloatAttribute(c.node, "value", 0);
  if (c.has(2)) {
    if (!c.in(2).known() || c.in(2).array->reals.size() != 1)
      return c.Unsupported("pads with one known number");
    outside = c.in(2).array->reals[0];
  }
  const Shape in = c.shape(0);
  if (pads.size() != 2 * in.size()) return absl::InvalidArgumentError("lacks two numbers an axis");
  Shape before, after;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t first = pads[i], last = pads[i + in.size()];
    constexpr int64_t kMost = 1 << 24;
    if (first < 0 || last < 0 || first > kMost || last > kMost)
      return c.Unsupported("pads by negative or huge numbers");
    if (first + last > 0) PSGD_RETURN_IF_ERROR(NotTheBatch(c, in, static_cast<int>(i)));
    before.push_back(first);
    after.push_back(last);
  }
  if (std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; })) {
    return std::vector<Value>{c.in(0)};
  }
  if (mode != "constant") return PadByElements(c, mode, before, after);
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  return c.Made(AddPad(c.graph(), c.name, {before, outside}, after, x));
}

// Values that do not depend on the batch get its axis where the result begins with the file's
// batch. `to`: the result in the file's sizes.
Imported SpreadTo(const OpContext& c, Shape to) {
  const Value& value = c.in(0);
  const Shape from = WithRank(c.importer.FileShapeOf(value), to.size());
  const int64_t batch = c.importer.batch(), file_batch = c.importer.file_batch();
  int64_t outer = kNoBatch;
  if (value.outer != kNoBatch) {
    outer = OuterAfter(from, value.outer, to, file_batch);
    const int axis = BatchAxis(to, outer, file_batch);
    if (axis >= 0 && to[axis] != from[axis]) return c.Unsupported("repeats the samples of a batch");
    if (axis >= 0) to[axis] = to[axis] / file_batch * batch;
  } else if (to.size() > 1 && from[0] == 1 && to[0] == file_batch) {
    outer = 1;
    to[0] = batch;
  }
  if (TooLarge(to)) return absl::InvalidArgumentError("makes a tensor that is empty or too large");
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  Value made = {.outer = outer};
  PSGD_ASSIGN_OR_RETURN(made.tensor, Spread(c, x, made.WithAxis(to)));
  return std::vector<Value>{made};
}

Imported ImportExpand(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const auto to, c.Ints("shape", 1));
  if (!to) return absl::InvalidArgumentError("lacks a shape");
  PSGD_ASSIGN_OR_RETURN(const Shape shape, TogetherShape(c.importer.FileShapeOf(c.in(0)), *to));
  return SpreadTo(c, shape);
}

Imported ImportTile(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const auto repeats, c.Ints("repeats", 1));
  const Shape in = c.importer.FileShapeOf(c.in(0));
  if (!repeats || repeats->size() != in.size()) {
    return absl::InvalidArgumentError("lacks a number of repeats for each axis");
  }
  Shape to = in;
  bool spreads = true;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t times = (*repeats)[i];
    if (times < 1 || times > kLargestFolded)
      return c.Unsupported("repeats no elements, or too many");
    spreads = spreads && (times == 1 || in[i] == 1);
    to[i] *= times;
  }
  if (TooLarge(to)) return absl::InvalidArgumentError("makes a tensor that is too large");
  if (spreads) return SpreadTo(c, to);
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  for (int axis = 0; axis < static_cast<int>(in.size()); ++axis) {
    if (in[axis] == to[axis]) continue;
    PSGD_RETURN_IF_ERROR(NotTheBatch(c, c.shape(0), axis));
    PSGD_RETURN_IF_ERROR(c.importer.Spend(to[axis]));
    std::vector<int64_t> index;
    for (int64_t i = 0; i < to[axis]; ++i) index.push_back(i % in[axis]);
    PSGD_ASSIGN_OR_RETURN(x, Taken(c, axis, index, x));
  }
  return std::vector<Value>{c.Like(x)};
}

// Blocks of pixels from channels, or back.
Imported ImportDepthToSpace(const OpContext& c) {
  const Shape in = c.shape(0);
  const int64_t block = IntAttribute(c.node, "blocksize", 0);
  const bool grows = c.node.op_type() == "DepthToSpace";
  const bool channels_first = TextAttribute(c.node, "mode", "DCR") == "CRD";
  if (in.size() != 4 || block < 1 || block > kLargestFolded ||
      (grows ? in[1] % (block * block) : in[2] % block + in[3] % block) != 0) {
    return c.Unsupported(absl::StrCat("moves blocks of ", block, " pixels of ", ShapeText(in)));
  }
  Graph* g = c.graph();
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  const int64_t n = in[0], depth = in[1], h = in[2], w = in[3], less = depth / (block * block);
  Shape opened = {n, block, block, less, h, w}, made = {n, less, h * block, w * block};
  std::vector<int> order = {0, 3, 4, 1, 5, 2};
  if (grows && channels_first) {
    opened = {n, less, block, block, h, w};
    order = {0, 1, 4, 2, 5, 3};
  } else if (!grows) {
    opened = {n, depth, h / block, block, w / block, block};
    made = {n, depth * block * block, h / block, w / block};
    order = {0, 3, 5, 1, 2, 4};
  }
  PSGD_ASSIGN_OR_RETURN(x, AddReshape(g, c.name + ".blocks", x, opened));
  PSGD_ASSIGN_OR_RETURN(x, AddTranspose(g, c.name + ".moved", {order}, x));
  return c.Made(AddReshape(g, c.name, x, made));
}

}  // namespace

// Known indices of an axis. Indices of any shape replace the axis.
Imported GatherKnown(const OpContext& c, int axis) {
  const Shape in = c.shape(0);
  const Array& index = *c.in(1).array;
  if (index.real() || index.count() < 1) return c.Unsupported("its indices are not whole numbers");
  PSGD_RETURN_IF_ERROR(NotTheBatch(c, in, axis));
  std::vector<int64_t> places;
  bool range = true;
  for (int64_t at : index.ints) {
    places.push_back(at < 0 ? at + in[axis] : at);
    if (places.back() < 0 || places.back() >= in[axis]) {
      return InvalidArgumentError("its index ", at, " is beyond ", in[axis], " elements");
    }
    range = range && places.back() == places[0] + static_cast<int64_t>(places.size()) - 1;
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(const TensorId part,
                        range ? AddSlice(c.graph(), c.name, {axis, places[0]}, index.count(), x)
                              : Taken(c, axis, places, x));
  Value made = c.Like(part);
  Shape shape(in.begin(), in.begin() + axis);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), in.begin() + axis + 1, in.end());
  PSGD_ASSIGN_OR_RETURN(made.tensor,
                        AddReshape(c.graph(), c.name + ".rows", part, made.WithAxis(shape)));
  return std::vector<Value>{made};
}

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
  (*table)["Expand"] = ImportExpand;
  (*table)["Tile"] = ImportTile;
  (*table)["DepthToSpace"] = ImportDepthToSpace;
  (*table)["SpaceToDepth"] = ImportDepthToSpace;
}

}  // namespace psgd::onnx
