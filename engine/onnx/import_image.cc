// Convolutions, pools and other ops on images. Sequences N C L are images of one row.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/fuse.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/sliding.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

absl::StatusOr<TensorId> BiasOf(const OpContext& c) {
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
    return InvalidArgumentError("says kernel_shape ", ShapeText(said), ", but its weights are ",
                                ShapeText(w));
  }
  return kernel;
}

Imported ImportConv(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks weights");
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(const TensorId weight, c.Tensor(1));
  PSGD_ASSIGN_OR_RETURN(const TensorId bias, BiasOf(c));
  PSGD_ASSIGN_OR_RETURN(const auto kernel, KernelOf(c, weight));
  PSGD_ASSIGN_OR_RETURN(const Sliding sliding, Slide(c, x, kernel, 0));
  PSGD_ASSIGN_OR_RETURN(const int groups, Groups(c));
  return c.Made(AddConv2d(c.graph(), c.name, {sliding.window, groups}, sliding.x, weight, bias));
}

// One axis of a transposed convolution.
struct Stretched {
  int64_t whole = 0;              // the outputs without padding
  int64_t before = 0, after = 0;  // outputs left out; a negative `after` adds zeros
  // The first output that stays, counted among the outputs that equal padding leaves.
  int64_t begin() const { return before - pad(); }
  int64_t pad() const { return std::clamp<int64_t>(after, 0, before); }
  int64_t outputs() const { return whole - before - after; }
};

// `wanted`: outputs, of which those at the ends are left out; 0: `pads` says what is left out. The
// odd one is at the beginning, except with SAME_UPPER.
absl::Status LeaveOut(const OpContext& c, int64_t wanted, bool upper, Stretched* axis) {
  if (wanted != 0) {
    const int64_t out = axis->whole - wanted;
    axis->before = std::max<int64_t>(0, upper ? out / 2 : out - out / 2);
    axis->after = out - axis->before;
  }
  if (axis->outputs() >= 1 && axis->outputs() <= kLargestWindow) return absl::OkStatus();
  return c.Unsupported(absl::StrCat("makes ", axis->outputs(), " outputs along an axis"));
}

Imported ImportConvTranspose(const OpContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("lacks weights");
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(const TensorId weight, c.Tensor(1));
  PSGD_ASSIGN_OR_RETURN(const TensorId bias, BiasOf(c));
  PSGD_ASSIGN_OR_RETURN(const auto kernel, KernelOf(c, weight));
  PSGD_ASSIGN_OR_RETURN(Sliding sliding, WindowOf(c, x, kernel));
  PSGD_ASSIGN_OR_RETURN(const int groups, Groups(c));
  PSGD_ASSIGN_OR_RETURN(
      const Extent more,
      SlidingPair(c, "output_padding", IntsAttribute(c.node, "output_padding", {0, 0}), 0, 0));
  Graph* g = c.graph();
  const Shape in = g->shape(x);
  Window& w = sliding.window;
  // SAME makes as many outputs as the stride times the inputs.
  std::vector<int64_t> wanted = {0, 0};
  if (sliding.automatic.starts_with("SAME")) {
    wanted = {in[2] * w.stride.height, in[3] * w.stride.width};
  }
  wanted = IntsAttribute(c.node, "output_shape", wanted);
  if (wanted.size() == 4) wanted.erase(wanted.begin(), wanted.begin() + 2);  // N C H W
  if (sliding.automatic == "VALID") sliding.before = sliding.after = 0;
  const auto whole = [](int64_t size, int stride, int dilation, int of_kernel, int padding) {
    return (size - 1) * stride + int64_t{dilation} * (of_kernel - 1) + 1 + padding;
  };
  Stretched high = {whole(in[2], w.stride.height, w.dilation.height, w.kernel.height, more.height),
                    sliding.before.height, sliding.after.height};
  Stretched wide = {whole(in[3], w.stride.width, w.dilation.width, w.kernel.width, more.width),
                    sliding.before.width, sliding.after.width};
  if (wanted.size() != 2 || std::ranges::min(wanted) < 0 ||
      std::ranges::max(wanted) > kLargestWindow) {
    return c.Unsupported("output_shape is not a height and a width in range");
  }
  const bool upper = sliding.automatic == "SAME_UPPER";
  PSGD_RETURN_IF_ERROR(LeaveOut(c, wanted[0], upper, &high));
  PSGD_RETURN_IF_ERROR(LeaveOut(c, wanted[1], upper, &wide));
  w.pad = Extent(static_cast<int>(high.pad()), static_cast<int>(wide.pad()));
  // The bias is added also to outputs behind the last window.
  const bool longer = high.after < 0 || wide.after < 0;
  PSGD_ASSIGN_OR_RETURN(TensorId y, AddConvTranspose2d(g, c.name, {w, groups}, more, x, weight,
                                                       longer ? kNoTensor : bias));
  for (const auto& [axis, of] : {std::pair{2, high}, {3, wide}}) {
    const int64_t there = g->shape(y)[axis], kept = std::min(there - of.begin(), of.outputs());
    if (kept == there) continue;
    PSGD_ASSIGN_OR_RETURN(y, AddSlice(g, c.name + ".cut", {axis, of.begin()}, kept, y));
  }
  if (!longer) return std::vector<Value>{c.Like(y)};
  const Shape beyond = {0, 0, std::max<int64_t>(0, -high.after), std::max<int64_t>(0, -wide.after)};
  PSGD_ASSIGN_OR_RETURN(y, AddPad(g, c.name + ".longer", {{0, 0, 0, 0}, 0}, beyond, y));
  return c.Made(bias == kNoTensor ? y : AddBias(g, c.name + ".bias", y, bias));
}

Imported ImportMaxPool(const OpContext& c) {
  if (c.importer.Needs(c.node, 1)) return c.Unsupported("its places (second output) are used");
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(const Sliding sliding, Slide(c, x, IntsAttribute(c.node, "kernel_shape"),
                                                     std::numeric_limits<float>::lowest()));
  const Pool op = {Pool::Kind::kMax, sliding.window, IntAttribute(c.node, "ceil_mode", 0) != 0};
  return c.Made(AddPool(c.graph(), c.name, op, sliding.x));
}

Imported ImportGlobalPool(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  const Shape in = c.graph()->shape(x);
  if (in.size() != 4) return c.Unsupported("works on images");
  const Extent whole(static_cast<int>(in[2]), static_cast<int>(in[3]));
  const bool max = c.node.op_type() == "GlobalMaxPool";
  const Pool op = {max ? Pool::Kind::kMax : Pool::Kind::kAverage, {whole}};
  return c.Made(AddPool(c.graph(), c.name, op, x));
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

// A node of sequences N C L as a node of images N C 1 L.
NodeProto WithHeight(const NodeProto& node) {
  NodeProto made = node;
  for (AttributeProto& attribute : *made.mutable_attribute()) {
    const std::string& name = attribute.name();
    const bool pads = name == "pads" || name == "output_padding";
    if (!pads && name != "kernel_shape" && name != "strides" && name != "dilations" &&
        name != "output_shape") {
      continue;
    }
    std::vector<int64_t> sizes;
    for (int64_t size : attribute.ints()) {
      sizes.push_back(pads ? 0 : 1);
      sizes.push_back(size);
    }
    attribute.mutable_ints()->Assign(sizes.begin(), sizes.end());
  }
  return made;
}

// The value with an axis of one before the last.
absl::StatusOr<Value> WithHeight(const OpContext& c, const Value& value) {
  Shape shape = c.importer.ShapeOf(value);
  shape.insert(shape.end() - 1, 1);
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.importer.Tensor(value));
  PSGD_ASSIGN_OR_RETURN(const TensorId made, AddReshape(c.graph(), c.name + ".image", x, shape));
  return Value{.tensor = made, .outer = value.outer};
}

template <OpImport kImport>
Imported OnImages(const OpContext& c) {
  if (c.shape(0).size() != 3) return kImport(c);
  const NodeProto node = WithHeight(c.node);
  PSGD_ASSIGN_OR_RETURN(const Value x, WithHeight(c, c.in(0)));
  Value weight;
  std::vector<const Value*> inputs = c.inputs;
  inputs[0] = &x;
  if (c.has(1) && c.shape(1).size() == 3) {
    PSGD_ASSIGN_OR_RETURN(weight, WithHeight(c, c.in(1)));
    inputs[1] = &weight;
  }
  PSGD_ASSIGN_OR_RETURN(std::vector<Value> made,
                        kImport(OpContext{c.importer, node, c.name, inputs}));
  for (Value& value : made) {
    Shape shape = c.graph()->shape(value.tensor);
    shape.erase(shape.end() - 2);
    PSGD_ASSIGN_OR_RETURN(value.tensor,
                          AddReshape(c.graph(), c.name + ".row", value.tensor, shape));
  }
  return made;
}

}  // namespace

void AddImageOps(OpTable* table) {
  (*table)["Conv"] = OnImages<ImportConv>;
  (*table)["ConvTranspose"] = OnImages<ImportConvTranspose>;
  (*table)["MaxPool"] = OnImages<ImportMaxPool>;
  (*table)["GlobalAveragePool"] = OnImages<ImportGlobalPool>;
  (*table)["GlobalMaxPool"] = OnImages<ImportGlobalPool>;
  (*table)["AveragePool"] = OnImages<ImportAveragePool>;
  (*table)["BatchNormalization"] = ImportBatchNorm;
  (*table)["LRN"] = ImportLocalResponseNorm;
}

}  // namespace psgd::onnx
