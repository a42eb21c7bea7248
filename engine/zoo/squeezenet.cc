#include "engine/zoo/models.h"

namespace psgd::zoo {
namespace {

TensorId Fire(NetworkBuilder& net, const std::string& name, TensorId x, int squeeze, int expand) {
  x = net.Relu(net.Conv2d(name + ".squeeze", x, {.channels = squeeze}));
  const TensorId one = net.Conv2d(name + ".expand1x1", x, {.channels = expand});
  const TensorId three =
      net.Conv2d(name + ".expand3x3", x, {.channels = expand, .kernel = 3, .pad = 1});
  return net.Concat(name, {net.Relu(one), net.Relu(three)});
}

}  // namespace

// SqueezeNet 1.1 (Iandola et al., 2016, and the release after the paper): 1,235,496 weights for
// 1000 classes.
TensorId Squeezenet(NetworkBuilder& net, const ModelConfig& config) {
  const PoolLayer halve = {.kernel = 3, .stride = 2, .ceil = true};
  net.UseHeInitial();
  TensorId x = net.image();
  x = net.Relu(net.Conv2d("features.0", x, {.channels = 64, .kernel = 3, .stride = 2}));
  x = net.MaxPool("features.2", x, halve);
  x = Fire(net, "features.3", x, 16, 64);
  x = Fire(net, "features.4", x, 16, 64);
  x = net.MaxPool("features.5", x, halve);
  x = Fire(net, "features.6", x, 32, 128);
  x = Fire(net, "features.7", x, 32, 128);
  x = net.MaxPool("features.8", x, halve);
  x = Fire(net, "features.9", x, 48, 192);
  x = Fire(net, "features.10", x, 48, 192);
  x = Fire(net, "features.11", x, 64, 256);
  x = Fire(net, "features.12", x, 64, 256);
  x = net.Dropout(x, config.dropout());
  x = net.Relu(net.Conv2d("classifier.1", x, {.channels = net.classes()}));
  return net.GlobalAveragePool("classifier.3", x);
}

}  // namespace psgd::zoo
