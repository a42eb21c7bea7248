#include "absl/strings/str_cat.h"
#include "engine/zoo/blocks.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {
namespace {

// The ResNet of He et al. (2015), section 4.2, for 32x32 images: 6n + 2 layers with weights. If
// shapes change, the shortcut takes every second pixel and adds channels of zeros (option A), so no
// shortcut has weights.
TensorId ResnetCifar(NetworkBuilder& net, int blocks) {
  net.UseHeInitial();
  const auto conv = [&](const std::string& name, const char* number, TensorId x, int channels,
                        int stride) {
    return ConvNorm(net, absl::StrCat(name, "conv", number), absl::StrCat(name, "bn", number), x,
                    {.channels = channels, .kernel = 3, .stride = stride, .pad = 1});
  };
  TensorId x = net.Relu(conv("", "1", net.image(), 16, 1));
  int channels = 16;
  for (int layer = 1; layer <= 3; ++layer, channels *= 2) {
    for (int block = 0; block < blocks; ++block) {
      const std::string name = absl::StrCat("layer", layer, ".", block);
      const int stride = layer > 1 && block == 0 ? 2 : 1;
      const TensorId inner = net.Relu(conv(name + ".", "1", x, channels, stride));
      const TensorId added = conv(name + ".", "2", inner, channels, 1);
      if (stride > 1) {
        x = net.AveragePool(name + ".every_second", x, {.kernel = 1, .stride = stride});
        x = net.Pad(name + ".shortcut", x, {.before = {0, 0, 0, 0}}, {0, channels / 2, 0, 0});
      }
      x = net.Relu(net.Add(name, added, x));
    }
  }
  return net.Dense("fc", net.GlobalAveragePool("avgpool", x), net.classes());
}

}  // namespace

// Weights for ten classes: 269,722, 853,018 and 1,727,962.
TensorId Resnet20(NetworkBuilder& net, const ModelConfig&) { return ResnetCifar(net, 3); }
TensorId Resnet56(NetworkBuilder& net, const ModelConfig&) { return ResnetCifar(net, 9); }
TensorId Resnet110(NetworkBuilder& net, const ModelConfig&) { return ResnetCifar(net, 18); }

}  // namespace psgd::zoo
