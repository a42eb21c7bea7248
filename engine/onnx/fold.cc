#include "engine/onnx/fold.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"

namespace psgd::onnx {
namespace {

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

ArrayPtr Reshaped(const Array& array, Shape shape) {
  auto made = std::make_shared<Array>(array);
  made->shape = std::move(shape);
  return made;
}

Folded FoldConstant(const FoldContext& c) {
  if (const AttributeProto* value = FindAttribute(c.node, "value")) {
    PSGD_ASSIGN_OR_RETURN(ArrayPtr array, ReadArray(value->t()));
    return std::vector<ArrayPtr>{array};
  }
  if (const AttributeProto* value = FindAttribute(c.node, "value_int")) {
    return std::vector<ArrayPtr>{MakeInts({}, {value->i()})};
  }
  if (const AttributeProto* value = FindAttribute(c.node, "value_float")) {
    return std::vector<ArrayPtr>{MakeReals({}, {value->f()})};
  }
  if (const AttributeProto* value = FindAttribute(c.node, "value_ints")) {
    return std::vector<ArrayPtr>{
        MakeInts({value->ints_size()}, {value->ints().begin(), value->ints().end()})};
  }
  if (const AttributeProto* value = FindAttribute(c.node, "value_floats")) {
    return std::vector<ArrayPtr>{
        MakeReals({value->floats_size()}, {value->floats().begin(), value->floats().end()})};
  }
  return absl::UnimplementedError("holds neither numbers nor a tensor");
}

Folded FoldConstantOfShape(const FoldContext& c) {
  if (c.in(0).real()) return Wrong("its shape is not made of whole numbers");
  const Shape shape = c.in(0).ints;
  PSGD_ASSIGN_OR_RETURN(const int64_t count, CheckedCount(shape, kLargestFolded));
  ArrayPtr value = MakeReals({1}, {0});
  if (const AttributeProto* given = FindAttribute(c.node, "value")) {
    PSGD_ASSIGN_OR_RETURN(value, ReadArray(given->t()));
    if (value->count() != 1) return Wrong("its value is not one number");
  }
  const auto size = static_cast<size_t>(count);
  return std::vector<ArrayPtr>{
      value->real() ? MakeReals(shape, std::vector<float>(size, value->reals[0]))
                    : MakeInts(shape, std::vector<int64_t>(size, value->ints[0]), value->kind)};
}

Folded FoldReshape(const FoldContext& c) {
  PSGD_ASSIGN_OR_RETURN(const auto to, c.Ints("shape", 1));
  PSGD_ASSIGN_OR_RETURN(Shape shape,
                        ReshapedTo(c.in(0).shape, to, IntAttribute(c.node, "allowzero", 0)));
  return std::vector<ArrayPtr>{Reshaped(c.in(0), std::move(shape))};
}

Folded FoldUnsqueeze(const FoldContext& c) {
  PSGD_ASSIGN_OR_RETURN(const auto given, c.Ints("axes", 1));
  const size_t rank = c.in(0).shape.size() + given.size();
  if (rank > 16) return Wrong("makes too many axes");
  PSGD_ASSIGN_OR_RETURN(const std::vector<int> axes, CheckedAxes(given, rank));
  Shape shape;
  auto next = c.in(0).shape.begin();
  for (int axis = 0; axis < static_cast<int>(rank); ++axis) {
    shape.push_back(std::count(axes.begin(), axes.end(), axis) > 0 ? 1 : *next++);
  }
  return std::vector<ArrayPtr>{Reshaped(c.in(0), std::move(shape))};
}

Folded FoldSqueeze(const FoldContext& c) {
  const Shape& in = c.in(0).shape;
  PSGD_ASSIGN_OR_RETURN(const auto given, c.Ints("axes", 1));
  PSGD_ASSIGN_OR_RETURN(const std::vector<int> axes, CheckedAxes(given, in.size()));
  Shape shape;
  for (int axis = 0; axis < static_cast<int>(in.size()); ++axis) {
    const bool named = std::count(axes.begin(), axes.end(), axis) > 0;
    if (named && in[axis] != 1) return Wrong("squeezes an axis of more than one element");
    if (!named && (!given.empty() || in[axis] != 1)) shape.push_back(in[axis]);
  }
  return std::vector<ArrayPtr>{Reshaped(c.in(0), std::move(shape))};
}

Folded FoldFlatten(const FoldContext& c) {
  const Shape& in = c.in(0).shape;
  int64_t axis = IntAttribute(c.node, "axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(in.size());
  if (axis < 0 || axis > static_cast<int64_t>(in.size())) return Wrong("has no such axis");
  const auto product = [](auto from, auto to) {
    return std::accumulate(from, to, int64_t{1}, std::multiplies<>());
  };
  return std::vector<ArrayPtr>{Reshaped(
      c.in(0), {product(in.begin(), in.begin() + axis), product(in.begin() + axis, in.end())})};
}

// The places of a box in `from`: `box` has begin and step of each axis, `to` the sizes.
std::vector<int64_t> Places(const Shape& from, const std::vector<Range>& box, const Shape& to) {
  std::vector<int64_t> places;
  const int64_t count = ElementCount(to);
  places.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (size_t axis = to.size(); axis-- > 0;) {
      place += (box[axis].begin + rest % to[axis] * box[axis].step) * stride;
      rest /= to[axis];
      stride *= from[axis];
    }
    places.push_back(place);
  }
  return places;
}

Folded FoldSlice(const FoldContext& c) {
  const Shape& in = c.in(0).shape;
  PSGD_ASSIGN_OR_RETURN(const auto starts, c.Ints("starts", 1));
  PSGD_ASSIGN_OR_RETURN(const auto ends, c.Ints("ends", 2));
  std::vector<int64_t> all(starts.size());
  std::iota(all.begin(), all.end(), 0);
  PSGD_ASSIGN_OR_RETURN(const auto given, c.Ints("axes", 3, all));
  PSGD_ASSIGN_OR_RETURN(const auto steps,
                        c.Ints("steps", 4, std::vector<int64_t>(starts.size(), 1)));
  PSGD_ASSIGN_OR_RETURN(const std::vector<int> axes, CheckedAxes(given, in.size()));
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return Wrong("has unequal numbers of starts, ends, axes and steps");
  }
  std::vector<Range> box;
  for (int64_t size : in) box.push_back({0, size, 1});
  for (size_t i = 0; i < axes.size(); ++i) {
    PSGD_ASSIGN_OR_RETURN(box[axes[i]], SliceRange(in[axes[i]], starts[i], ends[i], steps[i]));
  }
  Shape out;
  for (const Range& range : box) out.push_back(range.length);
  return std::vector<ArrayPtr>{Pick(c.in(0), Places(in, box, out), out)};
}

Folded FoldConcat(const FoldContext& c) {
  if (!c.has(0)) return Wrong("concatenates nothing");
  Shape whole = c.in(0).shape;
  PSGD_ASSIGN_OR_RETURN(const auto axes,
                        CheckedAxes({IntAttribute(c.node, "axis", 0)}, whole.size()));
  const int axis = axes[0];
  whole[axis] = 0;
  for (const ArrayPtr& part : c.inputs) {
    Shape rest = part == nullptr ? Shape() : part->shape;
    if (rest.size() == whole.size()) {
      whole[axis] += rest[axis];
      rest[axis] = whole[axis];
    }
    if (rest != whole || part->kind != c.in(0).kind) return Wrong("its parts do not fit");
  }
  PSGD_RETURN_IF_ERROR(CheckedCount(whole, kLargestFolded).status());
  const int64_t rows =
      std::accumulate(whole.begin(), whole.begin() + axis, int64_t{1}, std::multiplies<>());
  auto made = std::make_shared<Array>();
  made->kind = c.in(0).kind;
  made->shape = whole;
  for (int64_t row = 0; row < rows; ++row) {
    for (const ArrayPtr& part : c.inputs) {
      const int64_t length = part->count() / rows;
      const auto copy = [&](const auto& from, auto* to) {
        to->insert(to->end(), from.begin() + row * length, from.begin() + (row + 1) * length);
      };
      if (made->real()) copy(part->reals, &made->reals);
      if (!made->real()) copy(part->ints, &made->ints);
    }
  }
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

Folded FoldTranspose(const FoldContext& c) {
  const Shape& in = c.in(0).shape;
  std::vector<int64_t> order(in.size());
  for (size_t i = 0; i < in.size(); ++i) order[i] = static_cast<int64_t>(in.size() - 1 - i);
  PSGD_ASSIGN_OR_RETURN(const auto axes,
                        CheckedAxes(IntsAttribute(c.node, "perm", order), in.size()));
  if (axes.size() != in.size()) return Wrong("orders too few axes");
  Shape out;
  std::vector<int64_t> strides(in.size(), 1);
  for (size_t i = in.size(); i-- > 1;) strides[i - 1] = strides[i] * in[i];
  for (int axis : axes) out.push_back(in[axis]);
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(c.in(0).count()));
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    int64_t rest = i, place = 0;
    for (size_t axis = out.size(); axis-- > 0;) {
      place += rest % out[axis] * strides[axes[axis]];
      rest /= out[axis];
    }
    places.push_back(place);
  }
  return std::vector<ArrayPtr>{Pick(c.in(0), places, out)};
}

Folded FoldGather(const FoldContext& c) {
  const Shape& in = c.in(0).shape;
  if (!c.has(1) || c.in(1).real()) return Wrong("its indices are not whole numbers");
  PSGD_ASSIGN_OR_RETURN(const auto axes, CheckedAxes({IntAttribute(c.node, "axis", 0)}, in.size()));
  const int axis = axes[0];
  Shape out(in.begin(), in.begin() + axis);
  out.insert(out.end(), c.in(1).shape.begin(), c.in(1).shape.end());
  out.insert(out.end(), in.begin() + axis + 1, in.end());
  PSGD_RETURN_IF_ERROR(CheckedCount(out, kLargestFolded).status());
  const auto product = [](auto from, auto to) {
    return std::accumulate(from, to, int64_t{1}, std::multiplies<>());
  };
  const int64_t rows = product(in.begin(), in.begin() + axis);
  const int64_t inner = product(in.begin() + axis + 1, in.end());
  std::vector<int64_t> places;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t index : c.in(1).ints) {
      if (index < 0) index += in[axis];
      if (index < 0 || index >= in[axis]) return Wrong("gathers beyond the end");
      for (int64_t i = 0; i < inner; ++i) places.push_back((row * in[axis] + index) * inner + i);
    }
  }
  return std::vector<ArrayPtr>{Pick(c.in(0), places, out)};
}

Folded FoldExpand(const FoldContext& c) {
  PSGD_ASSIGN_OR_RETURN(const auto to, c.Ints("shape", 1));
  PSGD_ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(c.in(0).shape, to));
  return std::vector<ArrayPtr>{Pick(c.in(0), BroadcastSource(c.in(0).shape, shape), shape)};
}

Folded FoldTile(const FoldContext& c) {
  const Shape& in = c.in(0).shape;
  PSGD_ASSIGN_OR_RETURN(const auto repeats, c.Ints("repeats", 1));
  if (repeats.size() != in.size()) return Wrong("lacks a number of repeats for each axis");
  // Each axis is spread over an axis of repeats before it.
  Shape out = in, from, to;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (repeats[axis] < 0 || repeats[axis] > kLargestFolded) return Wrong("repeats too often");
    out[axis] *= repeats[axis];
    PSGD_RETURN_IF_ERROR(CheckedCount(out, kLargestFolded).status());
    from.insert(from.end(), {1, in[axis]});
    to.insert(to.end(), {repeats[axis], in[axis]});
  }
  return std::vector<ArrayPtr>{Pick(c.in(0), BroadcastSource(from, to), out)};
}

// Sums of the elements up to each one along an axis.
Folded FoldCumSum(const FoldContext& c) {
  if (!c.has(1) || c.in(1).real() || c.in(1).count() != 1) return Wrong("lacks its axis");
  if (IntAttribute(c.node, "exclusive", 0) != 0 || IntAttribute(c.node, "reverse", 0) != 0) {
    return absl::UnimplementedError("is taken from the first element to each, which counts");
  }
  PSGD_ASSIGN_OR_RETURN(const auto axes, CheckedAxes({c.in(1).ints[0]}, c.in(0).shape.size()));
  auto made = std::make_shared<Array>(c.in(0));
  const Shape& shape = made->shape;
  const int64_t inner =
      std::accumulate(shape.begin() + axes[0] + 1, shape.end(), int64_t{1}, std::multiplies<>());
  const int64_t length = shape[axes[0]];
  for (int64_t i = 0; i < made->count(); ++i) {
    if (i / inner % length == 0) continue;
    if (made->real()) made->reals[i] += made->reals[i - inner];
    if (!made->real()) {
      // Unsigned numbers wrap around without undefined behaviour.
      made->ints[i] = static_cast<int64_t>(static_cast<uint64_t>(made->ints[i]) +
                                           static_cast<uint64_t>(made->ints[i - inner]));
    }
  }
  return std::vector<ArrayPtr>{ArrayPtr(std::move(made))};
}

Folded FoldIdentity(const FoldContext& c) { return std::vector<ArrayPtr>{c.inputs[0]}; }

struct Folder {
  Folded (*fold)(const FoldContext& context);
  bool needs_input = true;
};

const std::map<std::string, Folder>& Folders() {
  static const auto* const kFolders = new std::map<std::string, Folder>{
      {"Constant", {FoldConstant, false}},
      {"ConstantOfShape", {FoldConstantOfShape}},
      {"Identity", {FoldIdentity}},
      {"Reshape", {FoldReshape}},
      {"Unsqueeze", {FoldUnsqueeze}},
      {"Squeeze", {FoldSqueeze}},
      {"Flatten", {FoldFlatten}},
      {"Slice", {FoldSlice}},
      {"Concat", {FoldConcat}},
      {"Transpose", {FoldTranspose}},
      {"Gather", {FoldGather}},
      {"Expand", {FoldExpand}},
      {"Tile", {FoldTile}},
      {"CumSum", {FoldCumSum}},
  };
  return *kFolders;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> FoldContext::Ints(const char* attribute, size_t i,
                                                       std::vector<int64_t> otherwise) const {
  if (!has(i)) return IntsAttribute(node, attribute, std::move(otherwise));
  if (in(i).real()) return Wrong(absl::StrCat(attribute, " are not whole numbers"));
  return in(i).ints;
}

bool Folds(const NodeProto& node) {
  return Folders().count(node.op_type()) > 0 || FoldsElements(node) || FoldsReduction(node);
}

absl::StatusOr<std::vector<ArrayPtr>> Fold(const NodeProto& node,
                                           const std::vector<ArrayPtr>& inputs, int64_t opset) {
  const FoldContext context = {node, inputs, opset};
  const auto found = Folders().find(node.op_type());
  if (found != Folders().end() && !found->second.needs_input) return found->second.fold(context);
  if (node.op_type() != "Range" && !context.has(0)) return Wrong("lacks an input");
  if (found != Folders().end()) return found->second.fold(context);
  return FoldsReduction(node) ? FoldReduction(context) : FoldElements(context);
}

absl::StatusOr<std::vector<Value>> FoldShape(const NodeProto& node, const Shape& shape) {
  const int64_t rank = static_cast<int64_t>(shape.size());
  if (node.op_type() == "Size")
    return std::vector<Value>{{.array = MakeInts({}, {ElementCount(shape)})}};
  int64_t start = IntAttribute(node, "start", 0), end = IntAttribute(node, "end", rank);
  start = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<int64_t>(end < 0 ? end + rank : end, start, rank);
  return std::vector<Value>{
      {.array = MakeInts({end - start}, {shape.begin() + start, shape.begin() + end})}};
}

}  // namespace psgd::onnx
