// Upsample and Resize, along one axis after the other.
#include <algorithm>
#include <cmath>

#include "engine/onnx/attributes.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/importer.h"
#include "engine/ops/axis_map.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

// How a node maps places of the result to places of its input.
struct Resampling {
  std::string mode, place, round;
  double cubic = -0.75;
};

struct ResizedAxis {
  int64_t from = 1, to = 1;
  double scale = 1;  // to / from, before rounding to whole elements
};

// The standard's formulas for a place of the input.
absl::StatusOr<double> PlaceIn(const OpContext& c, const std::string& place,
                               const ResizedAxis& axis, int64_t at) {
  const double x = static_cast<double>(at), half = (x + 0.5) / axis.scale - 0.5;
  const double from = static_cast<double>(axis.from), to = static_cast<double>(axis.to);
  if (place == "half_pixel") return half;
  if (place == "pytorch_half_pixel") return axis.to > 1 ? half : 0;
  if (place == "asymmetric") return x / axis.scale;
  if (place == "align_corners") return axis.to > 1 ? x * (from - 1) / (to - 1) : 0;
  if (place == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (place == "half_pixel_symmetric") {
    const double middle = from / 2 * (1 - to / (from * axis.scale));
    return middle + half;
  }
  return c.Unsupported("resizes by " + SafeName(place));
}

int64_t Rounded(const std::string& round, double place) {
  if (round == "floor") return static_cast<int64_t>(std::floor(place));
  if (round == "ceil") return static_cast<int64_t>(std::ceil(place));
  return static_cast<int64_t>(round == "round_prefer_ceil" ? std::floor(place + 0.5)
                                                           : std::ceil(place - 0.5));
}

// The weight of an element that lies `distance` away (Keys, 1981).
double CubicWeight(double a, double distance) {
  const double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

absl::StatusOr<AxisMatrix> MatrixOf(const OpContext& c, const Resampling& how,
                                    const ResizedAxis& axis) {
  AxisMatrix matrix = {.columns = axis.from};
  const auto add = [&](int64_t column, double weight) {
    matrix.Add(std::clamp<int64_t>(column, 0, axis.from - 1), static_cast<float>(weight));
  };
  for (int64_t at = 0; at < axis.to; ++at) {
    PSGD_ASSIGN_OR_RETURN(double place, PlaceIn(c, how.place, axis, at));
    if (how.mode == "nearest") {
      add(Rounded(how.round, place), 1);
    } else if (how.mode == "linear") {
      place = std::clamp(place, 0.0, static_cast<double>(axis.from - 1));
      const double low = std::floor(place);
      add(static_cast<int64_t>(low), 1 - (place - low));
      if (place > low) add(static_cast<int64_t>(low) + 1, place - low);
    } else {
      const auto low = static_cast<int64_t>(std::floor(place));
      for (int64_t near = low - 1; near <= low + 2; ++near) {
        add(near, CubicWeight(how.cubic, place - static_cast<double>(near)));
      }
    }
    matrix.EndRow();
  }
  return matrix;
}

// The numbers of a known input for all axes, of which the node may name some.
template <typename T>
absl::StatusOr<std::vector<T>> ForAllAxes(const OpContext& c, std::vector<T> given,
                                          std::vector<T> all) {
  std::vector<int64_t> named = IntsAttribute(c.node, "axes");
  if (named.empty() && given.size() == all.size()) return given;
  PSGD_ASSIGN_OR_RETURN(const std::vector<int> axes, CheckedAxes(named, all.size()));
  if (axes.size() != given.size()) {
    return absl::InvalidArgumentError("has other numbers of axes and of sizes");
  }
  for (size_t i = 0; i < axes.size(); ++i) all[axes[i]] = given[i];
  return all;
}

// The axes in the file's sizes.
absl::StatusOr<std::vector<ResizedAxis>> AxesOf(const OpContext& c) {
  const Shape in = c.importer.FileShapeOf(c.in(0));
  const bool old = c.node.op_type() == "Upsample" || c.importer.opset() < 11;
  const size_t scales_at = old ? 1 : 2;
  std::vector<ResizedAxis> axes;
  const bool scales =
      c.has(scales_at) && c.in(scales_at).known() && !c.in(scales_at).array->reals.empty();
  const bool sizes = !scales && !old && c.has(3) && c.in(3).known() && !c.in(3).array->real();
  if (!scales && !sizes) return c.Unsupported("its sizes are not known in the file");
  std::vector<float> by(in.size(), 1);
  std::vector<int64_t> to = in;
  if (scales) {
    PSGD_ASSIGN_OR_RETURN(by, ForAllAxes(c, c.in(scales_at).array->reals, by));
  } else {
    PSGD_ASSIGN_OR_RETURN(to, ForAllAxes(c, c.in(3).array->ints, to));
  }
  for (size_t i = 0; i < in.size(); ++i) {
    const double from = static_cast<double>(in[i]);
    const double wanted =
        scales ? std::floor(static_cast<float>(from) * by[i]) : static_cast<double>(to[i]);
    if (!(wanted >= 1 && wanted < (1 << 24))) {
      return c.Unsupported("resizes to nothing, or to a huge size");
    }
    axes.push_back({in[i], static_cast<int64_t>(wanted), scales ? by[i] : wanted / from});
  }
  return axes;
}

// One whole factor for height and width with the nearest pixel has an op of its own; 0: another
// resize.
int FactorOf(const Resampling& how, const std::vector<ResizedAxis>& axes) {
  // At whole factors these modes round alike.
  const bool plain = how.mode == "nearest" &&
                     ((how.place == "asymmetric" && how.round == "floor") ||
                      (how.place.ends_with("half_pixel") && how.round.starts_with("round_prefer")));
  if (!plain || axes.size() != 4 || axes[0].from != axes[0].to || axes[1].from != axes[1].to) {
    return 0;
  }
  const int64_t factor = axes[2].to / axes[2].from;
  const auto by = [&](const ResizedAxis& axis) {
    return axis.to == factor * axis.from && axis.scale == static_cast<double>(factor);
  };
  return factor <= 1024 && by(axes[2]) && by(axes[3]) ? static_cast<int>(factor) : 0;
}

Imported ImportResize(const OpContext& c) {
  const bool upsample = c.node.op_type() == "Upsample";
  const bool old = upsample || c.importer.opset() < 11;
  Resampling how = {
      .mode = TextAttribute(c.node, "mode", "nearest"),
      .place = TextAttribute(c.node, "coordinate_transformation_mode",
                             old ? "asymmetric" : "half_pixel"),
      .round = TextAttribute(c.node, "nearest_mode", old ? "floor" : "round_prefer_floor"),
      .cubic = FloatAttribute(c.node, "cubic_coeff_a", -0.75f)};
  if (how.mode != "nearest" && how.mode != "linear" && how.mode != "cubic") {
    return c.Unsupported("resizes by mode " + SafeName(how.mode));
  }
  if (IntAttribute(c.node, "antialias", 0) != 0 ||
      IntAttribute(c.node, "exclude_outside", 0) != 0 ||
      TextAttribute(c.node, "keep_aspect_ratio_policy", "stretch") != "stretch") {
    return c.Unsupported("antialias, exclude_outside and keep_aspect_ratio_policy");
  }
  PSGD_ASSIGN_OR_RETURN(const std::vector<ResizedAxis> axes, AxesOf(c));
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  const int batch = BatchAxis(c.shape(0), c.in(0).outer, c.importer.batch());
  if (const int factor = FactorOf(how, axes); factor > 1) {
    return c.Made(AddUpsample(c.graph(), c.name, {factor}, x));
  }
  // Shrinking axes first leaves less for the others.
  std::vector<int> order(axes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::ranges::stable_sort(order, [&](int a, int b) { return axes[a].scale < axes[b].scale; });
  for (int axis : order) {
    if (axes[axis].from == axes[axis].to) continue;
    if (axis == batch) return c.Unsupported("resizes the batch");
    PSGD_RETURN_IF_ERROR(c.importer.Spend(axes[axis].to));
    PSGD_ASSIGN_OR_RETURN(AxisMatrix matrix, MatrixOf(c, how, axes[axis]));
    PSGD_ASSIGN_OR_RETURN(x, AddAxisMap(c.graph(), c.name, axis, std::move(matrix), x));
    if (TooLarge(c.graph()->shape(x))) {
      return absl::InvalidArgumentError("makes a tensor that is too large");
    }
  }
  return std::vector<Value>{c.Like(x)};
}

}  // namespace

void AddResize(OpTable* table) {
  (*table)["Upsample"] = ImportResize;
  (*table)["Resize"] = ImportResize;
}

}  // namespace psgd::onnx
