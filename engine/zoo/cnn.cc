#include "engine/zoo/models.h"

namespace psgd::zoo {

// A small convolutional network with batch normalisation for 28x28 images: few weights, fast on a
// CPU because the wide layers work on pooled images.
TensorId Cnn(NetworkBuilder& net, const ModelConfig& config) {
  const auto block = [&](const char* conv, const char* bn, TensorId x, int channels) {
    x = net.Conv2d(conv, x, {.channels = channels, .kernel = 3, .pad = 1, .bias = false});
    return net.Relu(net.BatchNorm(bn, x));
  };
  TensorId x = block("conv1", "bn1", net.image(), 32);
  x = net.MaxPool("pool1", x, {.kernel = 2, .stride = 2});
  x = block("conv2", "bn2", x, 64);
  x = net.MaxPool("pool2", x, {.kernel = 2, .stride = 2});
  x = block("conv3", "bn3", x, 64);
  x = net.Dropout(net.Flatten(x), config.dropout());
  return net.Dense("fc1", x, net.classes());
}

}  // namespace psgd::zoo
