#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {

// U-Net (Ronneberger et al., 2015): logits for every pixel. Convolutions are padded, so that
// nothing is cropped and the logits have the size of the image, a multiple of 16. The paper gives
// no rate for the dropout before its upward path. 31,030,658 weights for gray images in two
// classes.
TensorId Unet(NetworkBuilder& net, const ModelConfig& config) {
  net.UseHeInitial();
  const auto twice = [&](const std::string& name, TensorId x, int channels) {
    for (const char* conv : {".conv1", ".conv2"}) {
      x = net.Relu(net.Conv2d(name + conv, x, {.channels = channels, .kernel = 3, .pad = 1}));
    }
    return x;
  };
  TensorId x = net.image();
  std::vector<TensorId> skips;
  int channels = 64;
  for (int level = 1; level <= 4; ++level, channels *= 2) {
    const std::string name = absl::StrCat("down", level);
    skips.push_back(twice(name, x, channels));
    x = net.MaxPool(name + ".pool", skips.back(), {.kernel = 2, .stride = 2});
  }
  x = net.Dropout(twice("bottom", x, channels), config.dropout());
  for (int level = 4; level >= 1; --level) {
    channels /= 2;
    const std::string name = absl::StrCat("up", level);
    x = net.ConvTranspose2d(name + ".up", x, {.channels = channels, .kernel = 2, .stride = 2});
    x = twice(name, net.Concat(name + ".concat", {skips[level - 1], x}), channels);
  }
  return net.Conv2d("out", x, {.channels = net.classes()});
}

}  // namespace psgd::zoo
