#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {
namespace {

// VGG (Simonyan and Zisserman, 2014): blocks of 3x3 convolutions, and a pool after each block.
// Layers have torchvision's numbers, which count relus and pools, too.
TensorId Vgg(NetworkBuilder& net, const ModelConfig& config, const std::vector<int>& depths) {
  net.UseHeInitial();
  TensorId x = net.image();
  int layer = 0, channels = 64;
  for (int depth : depths) {
    for (int i = 0; i < depth; ++i, layer += 2) {
      const ConvLayer conv = {.channels = channels, .kernel = 3, .pad = 1};
      x = net.Relu(net.Conv2d(absl::StrCat("features.", layer), x, conv));
    }
    x = net.MaxPool(absl::StrCat("features.", layer++), x, {.kernel = 2, .stride = 2});
    channels = channels < 512 ? channels * 2 : channels;
  }
  x = net.AdaptiveAveragePool("avgpool", x, 7);
  x = net.Dropout(net.Relu(net.Dense("classifier.0", x, 4096)), config.dropout());
  x = net.Dropout(net.Relu(net.Dense("classifier.3", x, 4096)), config.dropout());
  return net.Dense("classifier.6", x, net.classes());
}

}  // namespace

// 138,357,544 weights for 1000 classes. Images are at least 32x32.
TensorId Vgg16(NetworkBuilder& net, const ModelConfig& config) {
  return Vgg(net, config, {2, 2, 3, 3, 3});
}

// 143,667,240 weights.
TensorId Vgg19(NetworkBuilder& net, const ModelConfig& config) {
  return Vgg(net, config, {2, 2, 4, 4, 4});
}

}  // namespace psgd::zoo
