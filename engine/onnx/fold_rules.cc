// Rules for known values and for ops of the graph: axes, ranges, broadcasting.
#include <algorithm>
#include <numeric>
#include <set>

#include "engine/onnx/attributes.h"
#include "engine/onnx/fold.h"

namespace psgd::onnx {

absl::StatusOr<std::vector<int>> CheckedAxes(const std::vector<int64_t>& axes, size_t rank) {
  std::vector<int> checked;
  std::set<int64_t> seen;
  for (int64_t axis : axes) {
    const int64_t counted = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
    if (counted < 0 || counted >= static_cast<int64_t>(rank) || !seen.insert(counted).second) {
      return InvalidArgumentError("names axis ", axis, " of ", rank, ", or names one twice");
    }
    checked.push_back(static_cast<int>(counted));
  }
  return checked;
}

absl::StatusOr<std::vector<int>> ReducedAxes(const NodeProto& node,
                                             const std::vector<int64_t>& given, size_t rank) {
  std::vector<int64_t> named = given;
  if (named.empty() && IntAttribute(node, "noop_with_empty_axes", 0) == 0) {
    named.resize(rank);
    std::iota(named.begin(), named.end(), 0);
  }
  PSGD_ASSIGN_OR_RETURN(std::vector<int> axes, CheckedAxes(named, rank));
  std::sort(axes.begin(), axes.end());
  return axes;
}

absl::StatusOr<Shape> ReshapedTo(const Shape& from, const std::vector<int64_t>& to,
                                 bool allow_zero) {
  constexpr int64_t kMost = int64_t{1} << 40;
  PSGD_ASSIGN_OR_RETURN(const int64_t count, CheckedCount(from, kMost));
  Shape shape = to;
  int unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= from.size()) return absl::InvalidArgumentError("keeps an axis that is not there");
      shape[i] = from[i];
    }
    if (shape[i] != -1) continue;
    if (unknown >= 0) return absl::InvalidArgumentError("leaves two axes open");
    unknown = static_cast<int>(i);
    shape[i] = 1;
  }
  PSGD_ASSIGN_OR_RETURN(const int64_t made, CheckedCount(shape, kMost));
  if (unknown >= 0 && made > 0 && count % made == 0) {
    shape[unknown] = count / made;
  } else if (unknown >= 0 || made != count) {
    return InvalidArgumentError("cannot reshape ", ShapeText(from), " to ", ShapeText(to));
  }
  return shape;
}

absl::StatusOr<Range> SliceRange(int64_t size, int64_t start, int64_t end, int64_t step) {
  if (step == 0 || step < -size - 1 || size < 0) {
    return InvalidArgumentError("slices in steps of ", step);
  }
  // Clamps before it adds, because files write "to the end" as the largest number.
  const auto place = [size](int64_t at, int64_t low, int64_t high) {
    if (at < -size) return low;
    return std::clamp(at < 0 ? at + size : at, low, high);
  };
  Range range = {.step = std::min(step, size + 1)};
  if (step > 0) {
    range.begin = place(start, 0, size);
    const int64_t last = place(end, 0, size);
    range.length = std::max<int64_t>(0, (last - range.begin + range.step - 1) / range.step);
  } else {
    range.begin = place(start, 0, size - 1);
    const int64_t last = end < -size ? -1 : place(end, -1, size - 1);
    range.length = std::max<int64_t>(0, (range.begin - last - range.step - 1) / -range.step);
  }
  return range;
}

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) {
      return InvalidArgumentError(ShapeText(a), " and ", ShapeText(b), " do not broadcast");
    }
    shape[shape.size() - 1 - i] = left == 1 ? right : left;
  }
  PSGD_RETURN_IF_ERROR(CheckedCount(shape, kLargestFolded).status());
  return shape;
}

std::vector<int64_t> BroadcastSource(const Shape& from, const Shape& to) {
  std::vector<int64_t> places;
  const int64_t count = ElementCount(to);
  places.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (size_t k = 0; k < from.size(); ++k) {
      const int64_t size = from[from.size() - 1 - k], wide = to[to.size() - 1 - k];
      if (size != 1) place += rest % wide * stride;
      rest /= wide;
      stride *= size;
    }
    places.push_back(place);
  }
  return places;
}

ArrayPtr Pick(const Array& array, const std::vector<int64_t>& places, Shape shape) {
  auto made = std::make_shared<Array>();
  made->kind = array.kind;
  made->shape = std::move(shape);
  const auto pick = [&](const auto& from, auto* to) {
    to->reserve(places.size());
    for (int64_t place : places) to->push_back(from[place]);
  };
  if (array.real()) pick(array.reals, &made->reals);
  if (!array.real()) pick(array.ints, &made->ints);
  return made;
}

}  // namespace psgd::onnx
