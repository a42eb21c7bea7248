#include "engine/zoo/zoo.h"

#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/suggest.h"
#include "engine/onnx/import.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/onnx_file.h"
#include "engine/zoo/models.h"

namespace psgd {
namespace {

struct ZooEntry {
  const char* name;
  TensorId (*build)(NetworkBuilder& net, const ModelConfig& config);
  std::set<std::string> keys = {};  // its own keys of the model section
};

const ZooEntry kZoo[] = {
    {"mlp", zoo::Mlp, {"hidden", "dropout"}},
    {"lenet5", zoo::Lenet5},
    {"cnn", zoo::Cnn, {"dropout"}},
    {"alexnet", zoo::Alexnet, {"dropout"}},
    {"vgg16", zoo::Vgg16, {"dropout"}},
    {"vgg19", zoo::Vgg19, {"dropout"}},
    {"googlenet", zoo::Googlenet, {"dropout"}},
    {"inception_v3", zoo::InceptionV3, {"dropout"}},
    {"squeezenet", zoo::Squeezenet, {"dropout"}},
    {"resnet18", zoo::Resnet18},
    {"resnet34", zoo::Resnet34},
    {"resnet50", zoo::Resnet50},
    {"resnet101", zoo::Resnet101},
    {"resnet20", zoo::Resnet20},
    {"resnet56", zoo::Resnet56},
    {"resnet110", zoo::Resnet110},
    {"unet", zoo::Unet, {"dropout"}},
    {"gpt", zoo::Gpt, {"dropout", "heads", "layers", "width"}},
    {"transformer", zoo::Transformer, {"dropout", "heads", "layers", "width"}},
    {"bag_of_tokens", zoo::BagOfTokens, {"dropout", "width"}},
    {"transformer_encoder", zoo::TransformerEncoder, {"dropout", "heads", "layers", "width"}},
    {"lstm_lm", zoo::LstmLm, {"dropout", "layers", "width"}},
    {"logistic_regression", zoo::LogisticRegression},
    {"linear_regression", zoo::LinearRegression},
    {"ncf", zoo::Ncf, {"dropout", "hidden", "width"}},
};

std::string SampleText(const SampleShape& shape) {
  return shape.IsImage() ? absl::StrCat(shape.channels, "x", shape.height, "x", shape.width,
                                        " (channels, height, width)")
                         : shape.ImageText();
}

// Refuses a key that has a value and no effect. (A resolved config contains defaults, which pass.)
absl::Status CheckKeys(const std::string& name, const std::set<std::string>& heeded,
                       const ModelConfig& config) {
  const ModelConfig plain;
  const std::pair<const char*, bool> keys[] = {
      {"hidden", config.hidden_size() > 0},
      {"dropout", config.dropout() != plain.dropout()},
      {"layers", config.layers() != plain.layers()},
      {"width", config.width() != plain.width()},
      {"heads", config.heads() != plain.heads()},
      {"frozen", config.frozen_size() > 0},
  };
  for (const auto& [key, given] : keys) {
    if (!given || heeded.count(key) > 0) continue;
    return InvalidArgumentError("model.", key, " does nothing in ", name, "; leave it out");
  }
  return absl::OkStatus();
}

absl::Status CheckIgnoredLabel(const ModelConfig& config, int classes) {
  if (config.ignored_label() < classes) return absl::OkStatus();
  return InvalidArgumentError(
      "model.ignored_label is ", config.ignored_label(),
      ", but the labels of the data are from 0 to ", classes - 1,
      ", so that it leaves out nothing (padding, and 255 in masks, never count); "
      "leave it out, or name "
      "one of these");
}

absl::Status UnknownModel(const std::string& name) {
  const std::vector<std::string> names = ZooNames();
  const std::string wanted = name.substr(0, 64);
  return InvalidArgumentError("no model named \"", wanted, "\" in the zoo", Suggest(wanted, names),
                              " (there are: ", absl::StrJoin(names, ", "), ")");
}

}  // namespace

std::vector<std::string> ZooNames() {
  std::vector<std::string> names;
  for (const ZooEntry& entry : kZoo) names.push_back(entry.name);
  return names;
}

std::string ModelName(const ModelConfig& config) {
  if (config.has_client()) return "client";
  return config.has_onnx() ? std::filesystem::path(config.onnx()).filename().string()
                           : config.zoo();
}

absl::StatusOr<ModelInput> InputOf(const ModelConfig& config) {
  if (!config.has_onnx()) {
    const std::set<std::string> takers = {"bag_of_tokens", "gpt", "lstm_lm", "transformer_encoder"};
    const std::set<std::string> padded = {"bag_of_tokens", "transformer_encoder"};
    return ModelInput{.tokens = takers.count(config.zoo()) > 0,
                      .ends = padded.count(config.zoo()) > 0};
  }
  PSGD_ASSIGN_OR_RETURN(const auto file, onnx::OnnxFile::Read(config.onnx()));
  onnx::Importer importer(file, {.config = config});
  PSGD_RETURN_IF_ERROR(importer.ChooseTrained());
  const std::vector<const onnx::ValueInfoProto*> inputs = importer.Inputs();
  if (inputs.size() != 1) return ModelInput{};
  const onnx::TypeProto_Tensor& input = inputs[0]->type().tensor_type();
  const int type = input.elem_type();
  const auto& sides = input.shape().dim();
  return ModelInput{.tokens = type == onnx::TensorProto::INT64 || type == onnx::TensorProto::INT32,
                    .grey = sides.size() == 4 && sides[1].dim_value() == 1};
}

absl::StatusOr<ModelGraph> BuildModel(const ModelConfig& config, const SampleShape& shape,
                                      int batch, Mode mode) {
  PSGD_RETURN_IF_ERROR(CheckIgnoredLabel(config, shape.classes));
  if (config.has_onnx()) {
    PSGD_RETURN_IF_ERROR(CheckKeys("a model from a file", {"frozen"}, config));
    return ImportOnnx(config, shape, batch, mode);
  }
  if (config.has_client()) {
    return absl::InvalidArgumentError(
        "the programs that train bring the model (model: client), so psgd cannot compute with it: "
        "use the program itself, or set model.zoo or model.onnx");
  }
  if (!config.has_zoo()) {
    return absl::InvalidArgumentError(
        "the config names no model; set model.zoo, as in `model: {zoo: lenet5}`, or model.onnx");
  }
  for (const ZooEntry& entry : kZoo) {
    if (config.zoo() != entry.name) continue;
    PSGD_RETURN_IF_ERROR(CheckKeys(entry.name, entry.keys, config));
    NetworkBuilder net(mode, batch, shape);
    const TensorId logits = entry.build(net, config);
    absl::StatusOr<ModelGraph> model = net.Finish(logits, config);
    if (model.ok()) return model;
    return Annotate(model.status(), absl::StrCat("model ", entry.name, " does not fit samples of ",
                                                 SampleText(shape)));
  }
  return UnknownModel(config.zoo());
}

}  // namespace psgd
