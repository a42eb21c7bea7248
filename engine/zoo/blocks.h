// Blocks that several networks of the zoo share.
#pragma once

#include <string>

#include "engine/graph/builder.h"

namespace psgd::zoo {

// A convolution without bias, because the normalization after it has one.
inline TensorId ConvNorm(NetworkBuilder& net, const std::string& conv, const std::string& norm,
                         TensorId x, ConvLayer layer, float epsilon = 1e-5f) {
  layer.bias = false;
  return net.BatchNorm(norm, net.Conv2d(conv, x, layer), epsilon);
}

// torchvision's BasicConv2d of GoogLeNet and Inception.
inline TensorId BasicConv(NetworkBuilder& net, const std::string& name, TensorId x,
                          const ConvLayer& layer) {
  return net.Relu(ConvNorm(net, name + ".conv", name + ".bn", x, layer, 0.001f));
}

}  // namespace psgd::zoo
