#include "engine/zoo/zoo.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/suggest.h"
#include "engine/zoo/models.h"

namespace psgd {
namespace {

struct ZooEntry {
  const char* name;
  TensorId (*build)(NetworkBuilder& net, const ModelConfig& config);
};

constexpr ZooEntry kZoo[] = {
    {"mlp", zoo::Mlp},
    {"lenet5", zoo::Lenet5},
    {"cnn", zoo::Cnn},
    {"alexnet", zoo::Alexnet},
    {"vgg16", zoo::Vgg16},
    {"vgg19", zoo::Vgg19},
    {"googlenet", zoo::Googlenet},
    {"inception_v3", zoo::InceptionV3},
    {"squeezenet", zoo::Squeezenet},
    {"resnet18", zoo::Resnet18},
    {"resnet34", zoo::Resnet34},
    {"resnet50", zoo::Resnet50},
    {"resnet101", zoo::Resnet101},
    {"resnet20", zoo::Resnet20},
    {"resnet56", zoo::Resnet56},
    {"resnet110", zoo::Resnet110},
    {"unet", zoo::Unet},
    {"gpt", zoo::Gpt},
    {"lstm_lm", zoo::LstmLm},
};

std::string SampleText(const InputShape& shape) {
  if (shape.IsSequence()) return absl::StrCat(shape.length, " tokens");
  return absl::StrCat(shape.channels, "x", shape.height, "x", shape.width,
                      " (channels, height, width)");
}

absl::Status UnknownModel(const std::string& name) {
  const std::vector<std::string> names = ZooNames();
  const std::string wanted = name.substr(0, 64);
  return absl::InvalidArgumentError(absl::StrCat("no model named \"", wanted, "\" in the zoo",
                                                 Suggest(wanted, names),
                                                 " (there are: ", absl::StrJoin(names, ", "), ")"));
}

}  // namespace

std::vector<std::string> ZooNames() {
  std::vector<std::string> names;
  for (const ZooEntry& entry : kZoo) names.push_back(entry.name);
  return names;
}

absl::StatusOr<ModelGraph> BuildModel(const ModelConfig& config, const InputShape& shape, int batch,
                                      Mode mode) {
  if (!config.has_zoo()) {
    return absl::InvalidArgumentError(
        "the config names no model; set model.zoo, as in `model: {zoo: lenet5}`");
  }
  for (const ZooEntry& entry : kZoo) {
    if (config.zoo() != entry.name) continue;
    NetworkBuilder net(mode, batch, shape);
    const TensorId logits = entry.build(net, config);
    absl::StatusOr<ModelGraph> model = net.Finish(logits, config.label_smoothing());
    if (model.ok()) return model;
    return Annotate(model.status(), absl::StrCat("model ", entry.name, " does not fit samples of ",
                                                 SampleText(shape)));
  }
  return UnknownModel(config.zoo());
}

}  // namespace psgd
