#include "engine/zoo/models.h"

namespace psgd::zoo {

// AlexNet as in "One weird trick for parallelizing convolutional neural networks" (Krizhevsky,
// 2014) and torchvision: one tower and no response normalization. 61,100,840 weights for 224x224
// images in 1000 classes. Images are at least 63x63.
TensorId Alexnet(NetworkBuilder& net, const ModelConfig& config) {
  const PoolLayer halve = {.kernel = 3, .stride = 2};
  const auto conv = [&](const char* name, TensorId x, const ConvLayer& layer) {
    return net.Relu(net.Conv2d(name, x, layer));
  };
  TensorId x = net.image();
  x = conv("features.0", x, {.channels = 64, .kernel = 11, .stride = 4, .pad = 2});
  x = net.MaxPool("features.2", x, halve);
  x = conv("features.3", x, {.channels = 192, .kernel = 5, .pad = 2});
  x = net.MaxPool("features.5", x, halve);
  x = conv("features.6", x, {.channels = 384, .kernel = 3, .pad = 1});
  x = conv("features.8", x, {.channels = 256, .kernel = 3, .pad = 1});
  x = conv("features.10", x, {.channels = 256, .kernel = 3, .pad = 1});
  x = net.MaxPool("features.12", x, halve);
  x = net.AdaptiveAveragePool("avgpool", x, 6);
  x = net.Relu(net.Dense("classifier.1", net.Dropout(x, config.dropout()), 4096));
  x = net.Relu(net.Dense("classifier.4", net.Dropout(x, config.dropout()), 4096));
  return net.Dense("classifier.6", x, net.classes());
}

}  // namespace psgd::zoo
