#include <array>

#include "absl/strings/str_cat.h"
#include "engine/zoo/blocks.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {
namespace {

// Returns the branch that the block adds to its input.
using Residual = TensorId (*)(NetworkBuilder& net, const std::string& name, TensorId x,
                              int channels, int stride);

TensorId Basic(NetworkBuilder& net, const std::string& name, TensorId x, int channels, int stride) {
  x = net.Relu(ConvNorm(net, name + ".conv1", name + ".bn1", x,
                        {.channels = channels, .kernel = 3, .stride = stride, .pad = 1}));
  return ConvNorm(net, name + ".conv2", name + ".bn2", x,
                  {.channels = channels, .kernel = 3, .pad = 1});
}

constexpr int kExpansion = 4;

// The 3x3 convolution has the stride, as in torchvision; in the paper the 1x1 before it has it.
TensorId Bottleneck(NetworkBuilder& net, const std::string& name, TensorId x, int channels,
                    int stride) {
  x = net.Relu(ConvNorm(net, name + ".conv1", name + ".bn1", x, {.channels = channels}));
  x = net.Relu(ConvNorm(net, name + ".conv2", name + ".bn2", x,
                        {.channels = channels, .kernel = 3, .stride = stride, .pad = 1}));
  return ConvNorm(net, name + ".conv3", name + ".bn3", x, {.channels = channels * kExpansion});
}

// ResNet (He et al., 2015) for ImageNet. Shortcuts are identities, or projections if shapes change.
TensorId Resnet(NetworkBuilder& net, Residual residual, const std::array<int, 4>& depths) {
  const int expansion = residual == Bottleneck ? kExpansion : 1;
  net.UseHeInitial();
  TensorId x = net.Relu(ConvNorm(net, "conv1", "bn1", net.image(),
                                 {.channels = 64, .kernel = 7, .stride = 2, .pad = 3}));
  x = net.MaxPool("maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
  int channels = 64, inputs = 64;
  for (int layer = 1; layer <= 4; ++layer, channels *= 2) {
    for (int block = 0; block < depths[layer - 1]; ++block) {
      const std::string name = absl::StrCat("layer", layer, ".", block);
      const int stride = layer > 1 && block == 0 ? 2 : 1, outputs = channels * expansion;
      const TensorId added = residual(net, name, x, channels, stride);
      if (stride > 1 || inputs != outputs) {
        x = ConvNorm(net, name + ".downsample.0", name + ".downsample.1", x,
                     {.channels = outputs, .stride = stride});
      }
      x = net.Relu(net.Add(name, added, x));
      inputs = outputs;
    }
  }
  return net.Dense("fc", net.GlobalAveragePool("avgpool", x), net.classes());
}

}  // namespace

// Weights for 1000 classes: 11,689,512, 21,797,672, 25,557,032 and 44,549,160.
TensorId Resnet18(NetworkBuilder& net, const ModelConfig&) {
  return Resnet(net, Basic, {2, 2, 2, 2});
}
TensorId Resnet34(NetworkBuilder& net, const ModelConfig&) {
  return Resnet(net, Basic, {3, 4, 6, 3});
}
TensorId Resnet50(NetworkBuilder& net, const ModelConfig&) {
  return Resnet(net, Bottleneck, {3, 4, 6, 3});
}
TensorId Resnet101(NetworkBuilder& net, const ModelConfig&) {
  return Resnet(net, Bottleneck, {3, 4, 23, 3});
}

}  // namespace psgd::zoo
