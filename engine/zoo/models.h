// All networks of the zoo. Each function appends its layers to `net` and returns the logits.
#pragma once

#include "engine/graph/builder.h"
#include "proto/config.pb.h"

namespace psgd::zoo {

TensorId Mlp(NetworkBuilder& net, const ModelConfig& config);
TensorId Lenet5(NetworkBuilder& net, const ModelConfig& config);
TensorId Cnn(NetworkBuilder& net, const ModelConfig& config);
TensorId Alexnet(NetworkBuilder& net, const ModelConfig& config);
TensorId Vgg16(NetworkBuilder& net, const ModelConfig& config);
TensorId Vgg19(NetworkBuilder& net, const ModelConfig& config);
TensorId Googlenet(NetworkBuilder& net, const ModelConfig& config);
TensorId InceptionV3(NetworkBuilder& net, const ModelConfig& config);
TensorId Squeezenet(NetworkBuilder& net, const ModelConfig& config);
TensorId Resnet18(NetworkBuilder& net, const ModelConfig& config);
TensorId Resnet34(NetworkBuilder& net, const ModelConfig& config);
TensorId Resnet50(NetworkBuilder& net, const ModelConfig& config);
TensorId Resnet101(NetworkBuilder& net, const ModelConfig& config);
TensorId Resnet20(NetworkBuilder& net, const ModelConfig& config);
TensorId Resnet56(NetworkBuilder& net, const ModelConfig& config);
TensorId Resnet110(NetworkBuilder& net, const ModelConfig& config);
TensorId Unet(NetworkBuilder& net, const ModelConfig& config);
TensorId Gpt(NetworkBuilder& net, const ModelConfig& config);
TensorId Transformer(NetworkBuilder& net, const ModelConfig& config);
TensorId TransformerEncoder(NetworkBuilder& net, const ModelConfig& config);
TensorId BagOfTokens(NetworkBuilder& net, const ModelConfig& config);
TensorId LinearRegression(NetworkBuilder& net, const ModelConfig& config);
TensorId LogisticRegression(NetworkBuilder& net, const ModelConfig& config);
TensorId Ncf(NetworkBuilder& net, const ModelConfig& config);
TensorId LstmLm(NetworkBuilder& net, const ModelConfig& config);

}  // namespace psgd::zoo
