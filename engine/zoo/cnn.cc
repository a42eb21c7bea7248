#include "engine/zoo/models.h"

namespace psgd::zoo {

// Four 3x3 convolutions with batch normalization, 98,666 weights for 28x28 images in ten classes.
// Only the first, cheap convolution works on the full image; 64 channels come after pooling.
// Dropout 0.3 suits Fashion-MNIST.
TensorId Cnn(NetworkBuilder& net, const ModelConfig& config) {
  const auto block = [&](const char* conv, const char* bn, TensorId x, int channels) {
    x = net.Conv2d(conv, x, {.channels = channels, .kernel = 3, .pad = 1, .bias = false});
    return net.Relu(net.BatchNorm(bn, x));
  };
  const PoolLayer halve = {.kernel = 2, .stride = 2};
  TensorId x = net.MaxPool("pool1", block("conv1", "bn1", net.image(), 32), halve);
  x = net.MaxPool("pool2", block("conv2", "bn2", x, 64), halve);
  x = block("conv3", "bn3", x, 64);
  x = net.MaxPool("pool3", block("conv4", "bn4", x, 64), halve);
  x = net.Dropout(net.Flatten(x), config.dropout());
  return net.Dense("fc1", x, net.classes());
}

}  // namespace psgd::zoo
