// The beginning and end of an import: input, logits, loss.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/glob.h"
#include "common/suggest.h"
#include "engine/graph/loss.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/importer.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

// An error if the file's loss differs from the loss that training uses.
absl::Status CheckOwnLoss(const OnnxFile& file, const NodeProto& node, const ModelConfig& config,
                          int classes) {
  const std::string& op = node.op_type();
  if (TextAttribute(node, "reduction", "mean") != "mean" || node.input_size() > 2) {
    return InvalidArgumentError(
        "the model ", file.path(), " ends in a ", op,
        " of its own kind; psgd trains on the mean over the labels, each counted "
        "alike: export it with reduction mean and without weights, or without its "
        "loss");
  }
  if (config.loss() != ModelConfig::CROSS_ENTROPY) {
    return InvalidArgumentError(
        "the model ", file.path(), " ends in its loss, a ", op,
        ", and model.loss names another; leave model.loss out, or export it without its loss");
  }
  // Only an ignored label within the classes matters. Labels outside, as 255 of masks or PyTorch's
  // -100, are never counted.
  const int64_t ignored = IntAttribute(node, "ignore_index", -1);
  if (ignored >= 0 && ignored < classes && ignored != config.ignored_label()) {
    return InvalidArgumentError(
        "the model ", file.path(), " ends in a ", op, " that leaves out label ", ignored,
        "; say so with model.ignored_label: ", ignored, ", or export it without its loss");
  }
  return absl::OkStatus();
}

// A likelihood needs logarithms of probabilities, from a LogSoftmax or the Log of a Softmax.
absl::Status NotALikelihood(const OnnxFile& file, const NodeProto& loss) {
  return InvalidArgumentError(
      "the model ", file.path(), " ends in its loss, ", NodeLabel(loss),
      ", but no LogSoftmax makes what it is of, ", SafeName(loss.input(0)),
      ": psgd would train on another loss, softmax cross-entropy; put a LogSoftmax before it, or "
      "export the network without its loss");
}

// The name of the logits. If the file ends in a loss, or in a layer that turns logits into
// probabilities, the logits are its input. `probabilities`: that layer, if it is a softmax.
absl::StatusOr<std::string> Logits(const OnnxFile& file, const ModelConfig& config, int classes,
                                   const NodeProto** probabilities) {
  const GraphProto& graph = file.graph();
  const bool softmax = config.loss() == ModelConfig::CROSS_ENTROPY;
  std::string output = graph.output(graph.output_size() - 1).name();
  const NodeProto* likelihood = nullptr;  // the file's loss, which needs a softmax before it
  bool logarithm = false;                 // a Log lies between the two
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const NodeProto& node = graph.node(i);
    const std::string& op = node.op_type();
    if (node.output_size() == 0 || node.output(0) != output || node.input_size() == 0) continue;
    if (config.loss() == ModelConfig::SIGMOID && op == "Sigmoid") return node.input(0);
    const bool last =
        op == "LogSoftmax" ? !logarithm : op == "Softmax" && (likelihood == nullptr || logarithm);
    if (softmax && last) {
      *probabilities = &node;
      return node.input(0);
    }
    if (op == "SoftmaxCrossEntropyLoss" && likelihood == nullptr) {
      PSGD_RETURN_IF_ERROR(CheckOwnLoss(file, node, config, classes));
      return node.input(0);
    }
    if (op == "NegativeLogLikelihoodLoss" && likelihood == nullptr) {
      PSGD_RETURN_IF_ERROR(CheckOwnLoss(file, node, config, classes));
      likelihood = &node;
    } else if (op == "Log" && likelihood != nullptr && !logarithm) {
      logarithm = true;
    } else if (op != "Identity") {
      break;
    }
    output = node.input(0);
  }
  if (likelihood != nullptr) return NotALikelihood(file, *likelihood);
  return output;
}

const char* Kind(const SampleShape& sample) {
  return sample.IsSequence() ? "sequences of tokens"
         : sample.IsSparse() ? "sparse vectors"
                             : "images";
}

// The graph's input tensors: one, and for sparse vectors another for their values.
std::vector<Tensor> Samples(const SampleShape& sample, int64_t batch) {
  const auto indices = [](const char* name, Shape shape) {
    return Tensor{
        .name = name, .shape = std::move(shape), .element = Element::kInt32, .external = true};
  };
  if (sample.IsSequence()) return {indices("tokens", {batch, sample.length})};
  if (sample.IsSparse()) {
    const Shape shape = {batch, sample.entries};
    return {indices("indices", shape), {.name = "values", .shape = shape, .external = true}};
  }
  return {{.name = "image",
           .shape = {batch, sample.channels, sample.height, sample.width},
           .external = true}};
}

}  // namespace

absl::Status Importer::CheckInput(const ValueInfoProto& input, const psgd::Tensor& sample,
                                  Shape* shape) {
  const bool tokens = sample.element == Element::kInt32;
  const int type = input.type().tensor_type().elem_type();
  const bool takes_tokens = type == TensorProto::INT64 || type == TensorProto::INT32;
  const std::string where =
      absl::StrCat("the model ", file_.path(), ": its input ", SafeName(input.name()));
  if (takes_tokens != tokens || (!takes_tokens && type != TensorProto::FLOAT)) {
    return InvalidArgumentError(where,
                                takes_tokens ? " takes whole numbers (tokens)"
                                : type == TensorProto::FLOAT
                                    ? " takes images"
                                    : " is neither float nor whole numbers",
                                ", but samples are ", Kind(options_.shape),
                                "; choose another data.format or another model");
  }
  const Shape& ours = sample.shape;
  *shape = ours;
  if (!input.type().tensor_type().has_shape()) return absl::OkStatus();
  const auto& dims = input.type().tensor_type().shape().dim();
  const auto fixed = [&](int i) { return dims[i].has_dim_value() && dims[i].dim_value() > 0; };
  bool fits = dims.size() > 1;
  Shape given = {batch()};
  for (int i = 1; i < dims.size() && fits; ++i) {
    const bool same_rank = dims.size() == static_cast<int>(ours.size());
    fits = fixed(i) || same_rank;
    given.push_back(fixed(i) ? dims[i].dim_value() : fits ? ours[i] : 0);
  }
  fits = fits && !TooLarge(given) && ElementCount(given) == ElementCount(ours) &&
         (given.size() != ours.size() || given == ours);
  if (!fits) {
    std::string text;
    for (const auto& dim : dims) {
      absl::StrAppend(
          &text, text.empty() ? "" : "x",
          dim.has_dim_value() ? absl::StrCat(dim.dim_value()) : SafeName(dim.dim_param()));
    }
    const bool channels_last = dims.size() == 4 && ours.size() == 4 && given.size() == 4 &&
                               given[1] == ours[3] && given[2] == ours[1] && given[3] == ours[2];
    return InvalidArgumentError(
        where, " is ", text, ", but a batch of samples is ", ShapeText(ours),
        channels_last ? ": the samples have their channels last; make them the second axis: "
                        "x.transpose(0, 3, 1, 2)"
                      : " (the batch comes first); export the model for samples of this size, or "
                        "with dynamic_axes for all axes");
  }
  file_batch_ = fixed(0) ? dims[0].dim_value() : batch();
  if (file_batch_ > (int64_t{1} << 20)) {
    return InvalidArgumentError(where, " has a batch of ", file_batch_);
  }
  *shape = given;
  return absl::OkStatus();
}

absl::Status Importer::CheckFrozen() const {
  std::vector<std::string> names;
  for (const auto& [name, array] : file_.initializers()) names.push_back(SafeName(name));
  for (const std::string& glob : options_.config.frozen()) {
    const bool any = std::any_of(names.begin(), names.end(),
                                 [&](const std::string& name) { return GlobMatches(glob, name); });
    if (any) continue;
    return InvalidArgumentError("model.frozen: nothing in ", file_.path(), " is called \"", glob,
                                "\"", Suggest(glob, names));
  }
  return absl::OkStatus();
}

absl::Status Importer::FindOutput() {
  PSGD_ASSIGN_OR_RETURN(output_,
                        Logits(file_, options_.config, options_.shape.classes, &probabilities_));
  return absl::OkStatus();
}

std::vector<const ValueInfoProto*> Importer::Inputs() const {
  std::vector<const ValueInfoProto*> inputs;
  for (const ValueInfoProto& input : file_.graph().input()) {
    const bool needed = needed_.empty() || needed_.count(input.name()) > 0;
    if (needed && file_.initializers().count(input.name()) == 0) inputs.push_back(&input);
  }
  return inputs;
}

absl::Status Importer::Start() {
  PSGD_RETURN_IF_ERROR(ChooseTrained());
  for (const auto& [name, array] : file_.initializers()) {
    // Statistics are handled below.
    values_[name] = {.array = array, .parameter = trained_.count(name) > 0 ? name : ""};
  }
  for (const std::string& name : Statistics(file_.graph())) {
    const auto found = values_.find(name);
    if (found != values_.end()) found->second.parameter = name;
  }
  const std::vector<psgd::Tensor> samples = Samples(options_.shape, batch());
  const Shape& ours = samples[0].shape;
  if (TooLarge(ours) || options_.shape.classes < 1) {
    return InvalidArgumentError("a batch of ", ShapeText(ours), " is empty or too large");
  }
  std::vector<TensorId> ids;
  for (const psgd::Tensor& sample : samples) ids.push_back(model_.graph.AddTensor(sample));
  model_.input = ids[0];
  if (options_.shape.IsSparse()) model_.values = ids[1];
  std::vector<const ValueInfoProto*> inputs(samples.size());
  for (const ValueInfoProto* candidate : Inputs()) {
    // Only the input of values is real; other inputs are whole numbers or the one image.
    const bool real = candidate->type().tensor_type().elem_type() == TensorProto::FLOAT;
    const ValueInfoProto*& input = real ? inputs.back() : inputs.front();
    if (input != nullptr) {
      return InvalidArgumentError(
          "the model ", file_.path(), " has several inputs (", SafeName(input->name()), ", ",
          SafeName(candidate->name()),
          "); psgd gives it one: images or tokens, or indices and their values");
    }
    input = candidate;
  }
  if (inputs[0] == nullptr) {
    return InvalidArgumentError(
        "the output of the model ", file_.path(), " does not depend on any input",
        options_.shape.IsSparse() ? " of whole numbers (indices), but samples are sparse vectors"
                                  : "");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    Shape shape;
    PSGD_RETURN_IF_ERROR(CheckInput(*inputs[i], samples[i], &shape));
    TensorId given = ids[i];
    if (shape != samples[i].shape) {
      PSGD_ASSIGN_OR_RETURN(given,
                            AddReshape(&model_.graph, samples[i].name + ".given", given, shape));
    }
    values_[inputs[i]->name()] = {.tensor = given, .outer = 1};
  }
  return absl::OkStatus();
}

absl::Status Importer::CheckProbabilities(const Shape& logits, int64_t classes_axis) const {
  if (probabilities_ == nullptr) return absl::OkStatus();
  const auto rank = static_cast<int64_t>(logits.size());
  // Before opset 13 a softmax is over this axis and all axes behind it.
  const bool rest = opset() < 13;
  int64_t axis = IntAttribute(*probabilities_, "axis", rest ? 1 : -1);
  if (axis < 0) axis += rank;
  if (axis == classes_axis && (!rest || axis == rank - 1)) return absl::OkStatus();
  return InvalidArgumentError(
      "the model ", file_.path(), " ends in a ", probabilities_->op_type(), " over axis ", axis,
      rest && axis < rank - 1 ? " and those behind it" : "", " of ", ShapeText(logits),
      ", but psgd's loss is of probabilities over the classes, axis ", classes_axis,
      "; export it without its last layer, or with that axis");
}

absl::StatusOr<ModelGraph> Importer::Finish() {
  const Value& output = values_[output_];
  if (output.tensor == kNoTensor) {
    return InvalidArgumentError("the output ", SafeName(output_), " of the model ", file_.path(),
                                " does not depend on its input");
  }
  PSGD_ASSIGN_OR_RETURN(const TensorId logits, Tensor(output));
  Shape places = model_.graph.shape(logits);
  const SampleShape& sample = options_.shape;
  const size_t axis = places.size() == 4 ? 1 : places.size() - 1;
  const int64_t classes = places[axis];
  PSGD_RETURN_IF_ERROR(CheckProbabilities(places, static_cast<int64_t>(axis)));
  places.erase(places.begin() + static_cast<int64_t>(axis));
  const int64_t count = ElementCount(places);
  const int64_t wanted = sample.IsSequence()  ? batch() * static_cast<int64_t>(sample.labels())
                         : places.size() == 3 ? batch() * sample.height * sample.width
                                              : batch();
  if (output.outer != 1 || places.empty() || places.size() > 3 || count != wanted ||
      classes < sample.classes) {
    return InvalidArgumentError("the model ", file_.path(), ": its last output, ",
                                SafeName(output_), ", is ", ShapeText(model_.graph.shape(logits)),
                                ", but the data have ", sample.classes, " classes and ", wanted,
                                " labels a batch; logits are N C, N T C or N C H W");
  }
  if (model_.graph.parameters.empty()) {
    return InvalidArgumentError("the model ", file_.path(),
                                " has no weights to train: initializers that reach its output are "
                                "frozen, or were exported as constants");
  }
  PSGD_RETURN_IF_ERROR(AddLoss(options_.config, sample, options_.mode, logits, &model_));
  return std::move(model_);
}

}  // namespace psgd::onnx
