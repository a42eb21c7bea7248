// Convolutions, pools and other ops on images.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/fuse.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/sliding.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

absl::StatusOr<TensorId> Bias(const OpContext& c) {
  return c.has(2) ? c.Tensor(2) : absl::StatusOr<TensorId>(kNoTensor);
}

absl::StatusOr<int> Groups(const OpContext& c) {
  const int64_t groups = IntAttribute(c.node, "group", 1);
  if (groups < 1 || groups > (1 << 20)) return c.Unsupported(absl::StrCat(groups, " groups"));
  return static_cast<int>(groups);
}

absl::StatusOr<std::vector<int64_t>> KernelOf(const OpContext& c, TensorId weight) {
  const Shape& w = c.graph()->shape(weight);
  if (w.size() != 4)
    return c.Unsupported(absl::StrCat("has weights of ", ShapeText(w), "; psgd takes images"));
  const std::vector<int64_t> kernel = {w[2], w[3]};
  const std::vector<int64_t> said = IntsAttribute(c.node, "kernel_shape", kernel);
  if (said != kernel) {
    return absl::InvalidArgumentError(absl::StrCat("says kernel_shape ", ShapeText(said),
                                                   ", but its weights are ", ShapeText(w)));
  }
  return kernel;
}

Imported ImportConv(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks weights");
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(const TensorId weight, c.Tensor(1));
  PSGD_ASSIGN_OR_RETURN(const TensorId bias, Bias(c));
  PSGD_ASSIGN_OR_RETURN(const auto kernel, KernelOf(c, weight));
  PSGD_ASSIGN_OR_RETURN(const Sliding sliding, Slide(c, x, kernel, 0));
  PSGD_ASSIGN_OR_RETURN(const int groups, Groups(c));
  return c.Made(AddConv2d(c.graph(), c.name, {sliding.window, groups}, sliding.x, weight, bias));
}

Imported ImportConvTranspose(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks weights");
  if (FindAttribute(c.node, "output_shape") != nullptr ||
      TextAttribute(c.node, "auto_pad", "NOTSET") != "NOTSET") {
    return c.Unsupported("output_shape and auto_pad; give pads");
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(const TensorId weight, c.Tensor(1));
  PSGD_ASSIGN_OR_RETURN(const TensorId bias, Bias(c));
  PSGD_ASSIGN_OR_RETURN(const auto kernel, KernelOf(c, weight));
  const std::vector<int64_t> pads = IntsAttribute(c.node, "pads", {0, 0, 0, 0});
  if (pads.size() == 4 && (pads[0] != pads[2] || pads[1] != pads[3])) {
    return c.Unsupported("different padding before and after");
  }
  PSGD_ASSIGN_OR_RETURN(const Sliding sliding, Slide(c, x, kernel, 0));
  PSGD_ASSIGN_OR_RETURN(const int groups, Groups(c));
  PSGD_ASSIGN_OR_RETURN(
      const Extent more,
      SlidingPair(c, "output_padding", IntsAttribute(c.node, "output_padding", {0, 0}), 0, 0));
  return c.Made(
      AddConvTranspose2d(c.graph(), c.name, {sliding.window, groups}, more, x, weight, bias));
}

Imported ImportMaxPool(const OpContext& c) {
  if (c.importer.Needs(c.node, 1)) return c.Unsupported("its places (second output) are used");
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(const Sliding sliding, Slide(c, x, IntsAttribute(c.node, "kernel_shape"),
                                                     std::numeric_limits<float>::lowest()));
  const Pool op = {Pool::Kind::kMax, sliding.window, IntAttribute(c.node, "ceil_mode", 0) != 0};
  return c.Made(AddPool(c.graph(), c.name, op, sliding.x));
}

// Also for a ReduceMean over both axes of images, which exporters write instead.
Imported ImportGlobalPool(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  const Shape in = c.graph()->shape(x);
  const bool mean = c.node.op_type() == "ReduceMean";
  if (in.size() != 4)
    return c.Unsupported(mean ? "means are taken of N C H W over H and W" : "works on images");
  if (mean) {
    std::vector<int64_t> axes = IntsAttribute(c.node, "axes");
    for (int64_t& axis : axes) axis += axis < 0 ? 4 : 0;
    std::sort(axes.begin(), axes.end());
    if (axes != std::vector<int64_t>{2, 3})
      return c.Unsupported("means are taken of N C H W over H and W");
  }
  const Extent whole(static_cast<int>(in[2]), static_cast<int>(in[3]));
  const bool max = c.node.op_type() == "GlobalMaxPool";
  const Pool op = {max ? Pool::Kind::kMax : Pool::Kind::kAverage, {whole}};
  PSGD_ASSIGN_OR_RETURN(TensorId y, AddPool(c.graph(), c.name, op, x));
  if (mean && IntAttribute(c.node, "keepdims", 1) == 0) {
    PSGD_ASSIGN_OR_RETURN(y, AddReshape(c.graph(), c.name + ".flat", y, {in[0], in[1]}));
  }
  return std::vector<Value>{c.Like(y)};
}

// Also for rows N C and sequences N C L, as images of one pixel or one column.
Imported ImportBatchNorm(const OpContext& c) {
  if (!c.has(4)) return absl::InvalidArgumentError("lacks weights or statistics");
  PSGD_ASSIGN_OR_RETURN(TensorId x, c.Tensor(0));
  const Shape in = c.graph()->shape(x);
  if (in.size() == 2 || in.size() == 3) {
    Shape image = in;
    image.resize(4, 1);
    PSGD_ASSIGN_OR_RETURN(x, AddReshape(c.graph(), c.name + ".image", x, std::move(image)));
  }
  const auto finish = [&](TensorId y) -> Imported {
    if (in.size() == 4) return std::vector<Value>{c.Like(y)};
    PSGD_ASSIGN_OR_RETURN(const TensorId rows, AddReshape(c.graph(), c.name + ".rows", y, in));
    return std::vector<Value>{c.Like(rows)};
  };
  BatchNormParameters p;
  PSGD_ASSIGN_OR_RETURN(p.gamma, c.Tensor(1));
  PSGD_ASSIGN_OR_RETURN(p.beta, c.Tensor(2));
  PSGD_ASSIGN_OR_RETURN(p.running_mean, c.importer.Statistic(c.in(3)));
  PSGD_ASSIGN_OR_RETURN(p.running_var, c.importer.Statistic(c.in(4)));
  const float epsilon = FloatAttribute(c.node, "epsilon", 1e-5f);
  const float momentum = 1 - FloatAttribute(c.node, "momentum", 0.9f);  // ONNX weighs the old value
  if (!(epsilon >= 0) || !(momentum >= 0 && momentum <= 1)) {
    return absl::InvalidArgumentError("epsilon or momentum is out of range");
  }
  Graph* g = c.graph();
  if (!c.importer.training()) {
    PSGD_ASSIGN_OR_RETURN(const TensorId y, AddBatchNormInference(g, c.name, {epsilon}, x, p));
    return finish(y);
  }
  PSGD_ASSIGN_OR_RETURN(const BatchNormOutputs made,
                        AddBatchNorm(g, c.name, {epsilon, momentum}, x, p));
  for (Parameter& parameter : g->parameters) {
    if (parameter.value == p.running_mean) parameter.gradient = made.mean_delta;
    if (parameter.value == p.running_var) parameter.gradient = made.var_delta;
  }
  g->tensors[made.mean_delta].external = g->tensors[made.var_delta].external = true;
  return finish(made.y);
}

// For a norm from FuseNodes: checks that its means are over channels, equally many on both sides.
absl::Status CheckMeansOverChannels(const OpContext& c, int64_t size) {
  PSGD_ASSIGN_OR_RETURN(const auto opened, c.Ints("", 1));
  PSGD_ASSIGN_OR_RETURN(const auto pads, c.Ints("pads", 2));
  const Shape x = c.shape(0);
  const int64_t before = size / 2;
  const std::vector<int64_t> wanted = {0, 0, before, 0, 0, 0, 0, before, 0, 0};
  const bool channels =
      x.size() == 4 && opened && opened->size() == 5 && (*opened)[1] == 1 && (*opened)[2] == x[1];
  if (channels && pads == wanted) return absl::OkStatus();
  return c.Unsupported("normalising by means over five axes that are not the channels around each");
}

Imported ImportLocalResponseNorm(const OpContext& c) {
  const int64_t size = IntAttribute(c.node, "size", 0);
  if (size < 1 || size % 2 == 0 || size > kLargestWindow) {
    return c.Unsupported(
        absl::StrCat("normalising over ", size, " channels; psgd takes odd numbers"));
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  if (c.node.domain() == kOwnDomain) PSGD_RETURN_IF_ERROR(CheckMeansOverChannels(c, size));
  const LocalResponseNorm op = {static_cast<int>(size), FloatAttribute(c.node, "alpha", 1e-4f),
                                FloatAttribute(c.node, "beta", 0.75f),
                                FloatAttribute(c.node, "bias", 1.0f)};
  return c.Made(AddLocalResponseNorm(c.graph(), c.name, op, x));
}

// Upsample and Resize by one whole factor, with the nearest pixel.
Imported ImportResize(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  const Shape in = c.graph()->shape(x);
  if (TextAttribute(c.node, "mode", "nearest") != "nearest")
    return c.Unsupported("only the nearest pixel is taken (mode nearest)");
  const bool resize = c.node.op_type() == "Resize";
  // At whole factors these modes round alike; other modes do not.
  const std::string place = TextAttribute(c.node, "coordinate_transformation_mode", "half_pixel");
  const std::string round = TextAttribute(c.node, "nearest_mode", "round_prefer_floor");
  const bool plain = (place == "asymmetric" && round == "floor") ||
                     (place.ends_with("half_pixel") && round.starts_with("round_prefer"));
  if (resize && c.importer.opset() >= 11 && !plain) {
    return c.Unsupported(absl::StrCat("resizing by ", SafeName(place), " and ", SafeName(round)));
  }
  const bool old = !resize || c.importer.opset() < 11;
  const size_t scales_at = old ? 1 : 2;
  double factor = 0;
  bool fits = in.size() == 4;
  if (fits && c.has(scales_at) && c.in(scales_at).known() &&
      c.in(scales_at).array->reals.size() == 4) {
    const std::vector<float>& scales = c.in(scales_at).array->reals;
    factor = scales[2];
    fits = scales[0] == 1 && scales[1] == 1 && scales[2] == scales[3];
  } else if (fits && !old && c.has(3) && c.in(3).known() && c.in(3).array->ints.size() == 4) {
    const std::vector<int64_t>& sizes = c.in(3).array->ints;
    factor = static_cast<double>(sizes[2]) / static_cast<double>(in[2]);
    fits = sizes[0] == c.importer.file_batch() && sizes[1] == in[1] &&
           factor * static_cast<double>(in[3]) == static_cast<double>(sizes[3]);
  } else {
    fits = false;
  }
  if (!fits || !(factor >= 1 && factor <= 1024) || factor != std::floor(factor)) {
    return c.Unsupported("images grow by one whole factor in height and width, known in the file");
  }
  if (factor == 1) return std::vector<Value>{c.in(0)};
  return c.Made(AddUpsample(c.graph(), c.name, {static_cast<int>(factor)}, x));
}

}  // namespace

void AddImageOps(OpTable* table) {
  (*table)["Conv"] = ImportConv;
  (*table)["ConvTranspose"] = ImportConvTranspose;
  (*table)["MaxPool"] = ImportMaxPool;
  (*table)["GlobalAveragePool"] = ImportGlobalPool;
  (*table)["GlobalMaxPool"] = ImportGlobalPool;
  (*table)["ReduceMean"] = ImportGlobalPool;
  (*table)["BatchNormalization"] = ImportBatchNorm;
  (*table)["LRN"] = ImportLocalResponseNorm;
  (*table)["Upsample"] = ImportResize;
  (*table)["Resize"] = ImportResize;
}

}  // namespace psgd::onnx
