#include "engine/zoo/blocks.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {
namespace {

// A "Mixed" block of concatenated branches, with torchvision's names.
class Mixed {
 public:
  Mixed(NetworkBuilder& net, std::string name, TensorId x)
      : net_(net), name_(std::move(name)), x_(x) {}

  // Padded by half the kernel, so that the image keeps its size.
  TensorId Conv(const char* branch, TensorId x, int channels, Extent kernel = 1) {
    const Extent pad(kernel.height / 2, kernel.width / 2);
    return BasicConv(net_, name_ + branch, x, {.channels = channels, .kernel = kernel, .pad = pad});
  }
  TensorId Conv(const char* branch, int channels) { return Conv(branch, x_, channels); }
  TensorId Halve(const char* branch, TensorId x, int channels) {
    return BasicConv(net_, name_ + branch, x, {.channels = channels, .kernel = 3, .stride = 2});
  }
  TensorId MaxPool() { return net_.MaxPool(name_ + ".pool", x_, {.kernel = 3, .stride = 2}); }
  TensorId PoolConv(int channels) {
    const TensorId pool = net_.AveragePool(name_ + ".pool", x_, {.kernel = 3, .pad = 1});
    return Conv(".branch_pool", pool, channels);
  }
  TensorId Concat(const std::vector<TensorId>& branches) { return net_.Concat(name_, branches); }

  TensorId input() const { return x_; }

 private:
  NetworkBuilder& net_;
  const std::string name_;
  const TensorId x_;
};

constexpr Extent kRow(1, 7), kColumn(7, 1);

TensorId BlockA(NetworkBuilder& net, const char* name, TensorId x, int pool) {
  Mixed b(net, name, x);
  const TensorId one = b.Conv(".branch1x1", 64);
  const TensorId five = b.Conv(".branch5x5_2", b.Conv(".branch5x5_1", 48), 64, 5);
  TensorId three = b.Conv(".branch3x3dbl_2", b.Conv(".branch3x3dbl_1", 64), 96, 3);
  three = b.Conv(".branch3x3dbl_3", three, 96, 3);
  return b.Concat({one, five, three, b.PoolConv(pool)});
}

TensorId BlockB(NetworkBuilder& net, const char* name, TensorId x) {
  Mixed b(net, name, x);
  const TensorId three = b.Halve(".branch3x3", b.input(), 384);
  TensorId twice = b.Conv(".branch3x3dbl_2", b.Conv(".branch3x3dbl_1", 64), 96, 3);
  twice = b.Halve(".branch3x3dbl_3", twice, 96);
  return b.Concat({three, twice, b.MaxPool()});
}

TensorId BlockC(NetworkBuilder& net, const char* name, TensorId x, int channels) {
  Mixed b(net, name, x);
  const TensorId one = b.Conv(".branch1x1", 192);
  TensorId seven = b.Conv(".branch7x7_2", b.Conv(".branch7x7_1", channels), channels, kRow);
  seven = b.Conv(".branch7x7_3", seven, 192, kColumn);
  TensorId twice =
      b.Conv(".branch7x7dbl_2", b.Conv(".branch7x7dbl_1", channels), channels, kColumn);
  twice = b.Conv(".branch7x7dbl_3", twice, channels, kRow);
  twice = b.Conv(".branch7x7dbl_4", twice, channels, kColumn);
  twice = b.Conv(".branch7x7dbl_5", twice, 192, kRow);
  return b.Concat({one, seven, twice, b.PoolConv(192)});
}

TensorId BlockD(NetworkBuilder& net, const char* name, TensorId x) {
  Mixed b(net, name, x);
  const TensorId three = b.Halve(".branch3x3_2", b.Conv(".branch3x3_1", 192), 320);
  TensorId seven = b.Conv(".branch7x7x3_2", b.Conv(".branch7x7x3_1", 192), 192, kRow);
  seven = b.Conv(".branch7x7x3_3", seven, 192, kColumn);
  seven = b.Halve(".branch7x7x3_4", seven, 192);
  return b.Concat({three, seven, b.MaxPool()});
}

TensorId BlockE(NetworkBuilder& net, const char* name, TensorId x) {
  Mixed b(net, name, x);
  const Extent row(1, 3), column(3, 1);
  const TensorId one = b.Conv(".branch1x1", 320);
  const TensorId three = b.Conv(".branch3x3_1", 384);
  const TensorId three_row = b.Conv(".branch3x3_2a", three, 384, row);
  const TensorId three_column = b.Conv(".branch3x3_2b", three, 384, column);
  const TensorId twice = b.Conv(".branch3x3dbl_2", b.Conv(".branch3x3dbl_1", 448), 384, 3);
  const TensorId twice_row = b.Conv(".branch3x3dbl_3a", twice, 384, row);
  const TensorId twice_column = b.Conv(".branch3x3dbl_3b", twice, 384, column);
  return b.Concat({one, three_row, three_column, twice_row, twice_column, b.PoolConv(192)});
}

}  // namespace

// Inception v3 (Szegedy et al., 2015) without the auxiliary classifier: 23,834,568 weights for 1000
// classes. It is made for 299x299 images and takes images from 75x75 on.
TensorId InceptionV3(NetworkBuilder& net, const ModelConfig& config) {
  const PoolLayer halve = {.kernel = 3, .stride = 2};
  TensorId x = net.image();
  x = BasicConv(net, "Conv2d_1a_3x3", x, {.channels = 32, .kernel = 3, .stride = 2});
  x = BasicConv(net, "Conv2d_2a_3x3", x, {.channels = 32, .kernel = 3});
  x = BasicConv(net, "Conv2d_2b_3x3", x, {.channels = 64, .kernel = 3, .pad = 1});
  x = net.MaxPool("maxpool1", x, halve);
  x = BasicConv(net, "Conv2d_3b_1x1", x, {.channels = 80});
  x = BasicConv(net, "Conv2d_4a_3x3", x, {.channels = 192, .kernel = 3});
  x = net.MaxPool("maxpool2", x, halve);
  x = BlockA(net, "Mixed_5b", x, 32);
  x = BlockA(net, "Mixed_5c", x, 64);
  x = BlockA(net, "Mixed_5d", x, 64);
  x = BlockB(net, "Mixed_6a", x);
  x = BlockC(net, "Mixed_6b", x, 128);
  x = BlockC(net, "Mixed_6c", x, 160);
  x = BlockC(net, "Mixed_6d", x, 160);
  x = BlockC(net, "Mixed_6e", x, 192);
  x = BlockD(net, "Mixed_7a", x);
  x = BlockE(net, "Mixed_7b", x);
  x = BlockE(net, "Mixed_7c", x);
  x = net.Dropout(net.GlobalAveragePool("avgpool", x), config.dropout());
  return net.Dense("fc", x, net.classes());
}

}  // namespace psgd::zoo
