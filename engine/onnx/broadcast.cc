#include "engine/onnx/broadcast.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

// Neighboring axes that are treated alike, as one axis.
struct Run {
  bool changes = false;
  int64_t from = 1, to = 1;
};

// Axes of one element that stay belong to no run. The size of a run that changes is limited,
// because the graph has numbers for each of its elements.
std::vector<Run> RunsOf(const std::vector<Run>& axes) {
  constexpr int64_t kMostNumbers = 1 << 16;
  std::vector<Run> runs;
  for (const Run& axis : axes) {
    if (axis.from == 1 && axis.to == 1) continue;
    const bool joins = !runs.empty() && runs.back().changes == axis.changes &&
                       (!axis.changes || std::max(runs.back().from * axis.from,
                                                  runs.back().to * axis.to) <= kMostNumbers);
    if (!joins) runs.push_back({axis.changes, 1, 1});
    runs.back().from *= axis.from;
    runs.back().to *= axis.to;
  }
  return runs;
}

// Maps each run that changes by `matrix_of`, from the last to the first.
template <typename MatrixOf>
absl::StatusOr<TensorId> MapRuns(const OpContext& c, const std::vector<Run>& axes, TensorId x,
                                 const MatrixOf& matrix_of) {
  Graph* g = c.graph();
  const std::vector<Run> runs = RunsOf(axes);
  Shape shape, result;
  for (const Run& run : runs) shape.push_back(run.from);
  for (const Run& axis : axes) result.push_back(axis.to);
  if (shape.empty()) shape = {1};
  if (g->shape(x) != shape) {
    PSGD_ASSIGN_OR_RETURN(x, AddReshape(g, c.name + ".axes", x, shape));
  }
  for (size_t i = runs.size(); i-- > 0;) {
    if (!runs[i].changes) continue;
    PSGD_RETURN_IF_ERROR(c.importer.Spend(std::max(runs[i].from, runs[i].to)));
    PSGD_ASSIGN_OR_RETURN(
        x, AddAxisMap(g, c.name + ".map", static_cast<int>(i), matrix_of(runs[i]), x));
  }
  if (g->shape(x) == result || result.empty()) return x;
  return AddReshape(g, c.name + ".whole", x, result);
}

// The largest elements, by a pool over a row of them.
absl::StatusOr<TensorId> Largest(const OpContext& c, const std::vector<int>& axes, TensorId x) {
  Graph* g = c.graph();
  const Shape in = g->shape(x);
  std::vector<int> order;
  Shape result = in;
  int64_t width = 1;
  for (int axis = 0; axis < static_cast<int>(in.size()); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
  }
  for (int axis : axes) {
    order.push_back(axis);
    width *= in[axis];
    result[axis] = 1;
  }
  if (width > std::numeric_limits<uint16_t>::max()) {
    return c.Unsupported(absl::StrCat("takes the largest of ", width, " elements"));
  }
  if (!std::is_sorted(order.begin(), order.end())) {
    PSGD_ASSIGN_OR_RETURN(x, AddTranspose(g, c.name + ".last", {order}, x));
  }
  PSGD_ASSIGN_OR_RETURN(
      x, AddReshape(g, c.name + ".rows", x, {ElementCount(in) / width, 1, 1, width}));
  const Pool pool = {Pool::Kind::kMax, {Extent(1, static_cast<int>(width))}};
  PSGD_ASSIGN_OR_RETURN(x, AddPool(g, c.name, pool, x));
  return AddReshape(g, c.name + ".whole", x, result);
}

}  // namespace

bool EndsWith(const Shape& shape, const Shape& end) {
  return end.size() <= shape.size() && std::equal(end.rbegin(), end.rend(), shape.rbegin());
}

absl::StatusOr<Shape> TogetherShape(const Shape& a, const Shape& b) {
  Shape shape = WithRank(a, b.size());
  const Shape other = WithRank(b, shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != other[i] && shape[i] != 1 && other[i] != 1) {
      return InvalidArgumentError(ShapeText(a), " and ", ShapeText(b), " do not broadcast");
    }
    if (shape[i] == 1) shape[i] = other[i];
  }
  if (TooLarge(shape)) {
    return InvalidArgumentError(ShapeText(a), " and ", ShapeText(b),
                                " broadcast to a tensor that is empty or "
                                "too large");
  }
  return shape;
}

Shape WithRank(Shape shape, size_t rank) {
  if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

int64_t OuterAfterSpread(const OpContext& c, const Value& value, const Shape& shape) {
  return OuterAfter(WithRank(c.importer.ShapeOf(value), shape.size()), value.outer, shape,
                    c.importer.batch());
}

absl::Status SamplesStayApart(const OpContext& c, const Value& a, const Value& b) {
  const int64_t batch = c.importer.batch();
  // A batch of one leaves no trace in the sizes, and has no samples that could meet.
  if (a.outer == kNoBatch || b.outer == kNoBatch || batch == 1) return absl::OkStatus();
  const Shape of_a = c.importer.ShapeOf(a), of_b = c.importer.ShapeOf(b);
  const auto from_end = [&](const Shape& shape, int64_t outer) {
    return static_cast<int>(shape.size()) - BatchAxis(shape, outer, batch);
  };
  if (from_end(of_a, a.outer) == from_end(of_b, b.outer)) return absl::OkStatus();
  return c.CombinesSamples();
}

absl::StatusOr<TensorId> Spread(const OpContext& c, TensorId x, Shape shape) {
  if (c.graph()->shape(x) == shape) return x;
  const Shape from = WithRank(c.graph()->shape(x), shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (from[i] == shape[i] || from[i] == 1) continue;
    return InvalidArgumentError(ShapeText(from), " does not broadcast to ", ShapeText(shape));
  }
  std::vector<Run> axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    axes.push_back({from[i] != shape[i], from[i], shape[i]});
  }
  return MapRuns(c, axes, x, [](const Run& run) {
    return TakingRows(std::vector<int64_t>(static_cast<size_t>(run.to), 0), run.from);
  });
}

absl::StatusOr<Pair> SpreadTogether(const OpContext& c, const Value& a, const Value& b) {
  PSGD_ASSIGN_OR_RETURN(const Shape shape,
                        TogetherShape(c.importer.ShapeOf(a), c.importer.ShapeOf(b)));
  Pair pair;
  PSGD_ASSIGN_OR_RETURN(pair.a, c.importer.Tensor(a));
  PSGD_ASSIGN_OR_RETURN(pair.b, c.importer.Tensor(b));
  PSGD_ASSIGN_OR_RETURN(pair.a, Spread(c, pair.a, shape));
  PSGD_ASSIGN_OR_RETURN(pair.b, Spread(c, pair.b, shape));
  pair.outer = OuterAfterSpread(c, a.outer != kNoBatch ? a : b, shape);
  return pair;
}

absl::StatusOr<TensorId> Reduce(const OpContext& c, Reduction reduction, std::vector<int> axes,
                                TensorId x) {
  std::sort(axes.begin(), axes.end());
  if (reduction == Reduction::kMax) return Largest(c, axes, x);
  const Shape in = c.graph()->shape(x);
  std::vector<Run> runs;
  for (int axis = 0; axis < static_cast<int>(in.size()); ++axis) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), axis);
    runs.push_back({reduced, in[axis], reduced ? 1 : in[axis]});
  }
  return MapRuns(c, runs, x, [&](const Run& run) {
    return AddingRow(run.from,
                     reduction == Reduction::kMean ? 1.0f / static_cast<float>(run.from) : 1.0f);
  });
}

}  // namespace psgd::onnx
