// Every network of the zoo: appends its layers to `net` and returns the logits.
#pragma once

#include "engine/builder.h"
#include "proto/config.pb.h"

namespace psgd::zoo {

TensorId Mlp(NetworkBuilder& net, const ModelConfig& config);
TensorId Lenet5(NetworkBuilder& net, const ModelConfig& config);
TensorId Cnn(NetworkBuilder& net, const ModelConfig& config);
TensorId Gpt(NetworkBuilder& net, const ModelConfig& config);
TensorId LstmLm(NetworkBuilder& net, const ModelConfig& config);

}  // namespace psgd::zoo
