#include "engine/zoo/blocks.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {
namespace {

// Channels of an inception block: its four branches, and the 1x1 convolutions before them.
struct Inception {
  int one, three_before, three, five_before, five, pool;
};

// The third branch is 3x3, as in torchvision; in the paper it is 5x5.
TensorId Block(NetworkBuilder& net, const std::string& name, TensorId x, const Inception& c) {
  const auto conv = [&](const char* branch, TensorId in, int channels, Extent kernel, Extent pad) {
    return BasicConv(net, name + branch, in, {.channels = channels, .kernel = kernel, .pad = pad});
  };
  const TensorId one = conv(".branch1", x, c.one, 1, 0);
  const TensorId three =
      conv(".branch2.1", conv(".branch2.0", x, c.three_before, 1, 0), c.three, 3, 1);
  const TensorId five =
      conv(".branch3.1", conv(".branch3.0", x, c.five_before, 1, 0), c.five, 3, 1);
  TensorId pool = net.MaxPool(name + ".branch4.0", x, {.kernel = 3, .pad = 1});
  pool = conv(".branch4.1", pool, c.pool, 1, 0);
  return net.Concat(name, {one, three, five, pool});
}

}  // namespace

// GoogLeNet (Szegedy et al., 2014) with batch normalization and without the auxiliary classifiers:
// 6,624,904 weights for 1000 classes.
TensorId Googlenet(NetworkBuilder& net, const ModelConfig& config) {
  const PoolLayer halve = {.kernel = 3, .stride = 2, .ceil = true};
  TensorId x = net.image();
  x = BasicConv(net, "conv1", x, {.channels = 64, .kernel = 7, .stride = 2, .pad = 3});
  x = net.MaxPool("maxpool1", x, halve);
  x = BasicConv(net, "conv2", x, {.channels = 64});
  x = BasicConv(net, "conv3", x, {.channels = 192, .kernel = 3, .pad = 1});
  x = net.MaxPool("maxpool2", x, halve);
  x = Block(net, "inception3a", x, {64, 96, 128, 16, 32, 32});
  x = Block(net, "inception3b", x, {128, 128, 192, 32, 96, 64});
  x = net.MaxPool("maxpool3", x, halve);
  x = Block(net, "inception4a", x, {192, 96, 208, 16, 48, 64});
  x = Block(net, "inception4b", x, {160, 112, 224, 24, 64, 64});
  x = Block(net, "inception4c", x, {128, 128, 256, 24, 64, 64});
  x = Block(net, "inception4d", x, {112, 144, 288, 32, 64, 64});
  x = Block(net, "inception4e", x, {256, 160, 320, 32, 128, 128});
  x = net.MaxPool("maxpool4", x, {.kernel = 2, .stride = 2, .ceil = true});
  x = Block(net, "inception5a", x, {256, 160, 320, 32, 128, 128});
  x = Block(net, "inception5b", x, {384, 192, 384, 48, 128, 128});
  x = net.Dropout(net.GlobalAveragePool("avgpool", x), config.dropout());
  return net.Dense("fc", x, net.classes());
}

}  // namespace psgd::zoo
