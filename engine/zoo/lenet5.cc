#include "engine/zoo/models.h"

namespace psgd::zoo {

// LeNet-5 (LeCun et al., 1998) in Caffe's common form: 431,080 weights for 28x28 images in ten
// classes. Relu after the pool gives the same values as before it, for a quarter of the work.
TensorId Lenet5(NetworkBuilder& net, const ModelConfig&) {
  TensorId x = net.image();
  x = net.Conv2d("conv1", x, {.channels = 20, .kernel = 5});
  x = net.Relu(net.MaxPool("pool1", x, {.kernel = 2, .stride = 2}));
  x = net.Conv2d("conv2", x, {.channels = 50, .kernel = 5});
  x = net.Relu(net.MaxPool("pool2", x, {.kernel = 2, .stride = 2}));
  x = net.Relu(net.Dense("fc1", x, 500));
  return net.Dense("fc2", x, net.classes());
}

}  // namespace psgd::zoo
