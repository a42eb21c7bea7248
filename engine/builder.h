// Builds a network so that it reads like its paper: one line a layer. Parameters get the names that
// the same layers have in PyTorch ("conv1.weight"), in the order of the lines, and PyTorch's
// default initial values.
//
// The first layer that does not fit ends it: later calls do nothing, and Finish gives the error.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "engine/graph.h"
#include "engine/input_shape.h"
#include "engine/ops/rules.h"

namespace psgd {

enum class Mode { kTrain, kEvaluate };

// A network with its loss, forward only.
struct ModelGraph {
  Graph graph;
  TensorId image = kNoTensor;
  TensorId labels = kNoTensor;
  TensorId result = kNoTensor;  // see softmax_cross_entropy.h
};

struct ConvLayer {
  int channels = 0;
  Extent kernel = 1;
  Extent stride = 1;
  Extent pad = 0;
  Extent dilation = 1;
  int groups = 1;
  bool bias = true;
};

struct ConvTransposeLayer {
  int channels = 0;
  Extent kernel = 1;
  Extent stride = 1;
  Extent pad = 0;
  Extent output_pad = 0;
  int groups = 1;
  bool bias = true;
};

struct PoolLayer {
  Extent kernel = 1;
  Extent stride = 1;
  Extent pad = 0;
  bool ceil = false;  // of max pooling; see ops/pool.h
};

// Not thread-safe.
class NetworkBuilder {
 public:
  NetworkBuilder(Mode mode, int batch, const InputShape& shape);

  TensorId image() const { return model_.image; }
  int classes() const { return classes_; }

  // From here on the weights of convolutions start from N(0, 2 / fan_out), their biases from zero
  // (He et al., 2015): with PyTorch's default the signal fades in deep networks that normalise
  // nothing.
  void UseHeInitial() { he_initial_ = true; }

  TensorId Conv2d(const std::string& name, TensorId x, const ConvLayer& layer);
  TensorId ConvTranspose2d(const std::string& name, TensorId x, const ConvTransposeLayer& layer);
  TensorId MaxPool(const std::string& name, TensorId x, const PoolLayer& layer);
  TensorId AveragePool(const std::string& name, TensorId x, const PoolLayer& layer);
  // Each channel's mean, flattened to N C.
  TensorId GlobalAveragePool(const std::string& name, TensorId x);
  TensorId AdaptiveAveragePool(const std::string& name, TensorId x, Extent size);
  // Flattens images first.
  TensorId Dense(const std::string& name, TensorId x, int64_t outputs);
  TensorId BatchNorm(const std::string& name, TensorId x, float epsilon = 1e-5f);
  TensorId LocalResponseNorm(TensorId x, const psgd::LocalResponseNorm& op);
  TensorId Relu(TensorId x);
  TensorId LeakyRelu(TensorId x, float slope = 0.01f);
  TensorId Sigmoid(TensorId x);
  TensorId Tanh(TensorId x);
  TensorId Gelu(TensorId x);
  // Does nothing in evaluation or at rate 0.
  TensorId Dropout(TensorId x, float rate);
  TensorId Add(const std::string& name, TensorId a, TensorId b);
  TensorId Mul(const std::string& name, TensorId a, TensorId b);
  // Along the channels.
  TensorId Concat(const std::string& name, const std::vector<TensorId>& parts);
  TensorId Slice(const std::string& name, TensorId x, const psgd::Slice& op, int64_t length);
  // `after`: how much follows x, one number an axis, as op.before.
  TensorId Pad(const std::string& name, TensorId x, const psgd::Pad& op, const Shape& after);
  TensorId Upsample(const std::string& name, TensorId x, int factor);
  TensorId Flatten(TensorId x);

  // Ends the network with softmax cross-entropy over the logits: of samples, with a label each, or
  // of images, with a label a pixel.
  absl::StatusOr<ModelGraph> Finish(TensorId logits);

 private:
  TensorId NewParameter(const std::string& name, Shape shape, Parameter parameter);
  // Weights are drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)); so are biases.
  TensorId NewWeight(const std::string& name, Shape shape, int64_t fan_in, bool decay);
  TensorId NewConvWeight(const std::string& name, const Shape& shape);
  TensorId NewConvBias(const std::string& name, int channels, const Shape& weight);
  TensorId Activation(psgd::Activation::Kind kind, const std::string& name, TensorId x,
                      float slope = 0);
  TensorId Pool(Pool::Kind kind, const std::string& name, TensorId x, const PoolLayer& layer);
  // Runs `make` unless an error came before; keeps its error.
  template <typename Make>
  TensorId Layer(Make make);
  std::string NextName(const std::string& kind);

  const Mode mode_;
  const int classes_;
  ModelGraph model_;
  absl::Status status_;
  bool he_initial_ = false;
  uint32_t dropouts_ = 0;
  int unnamed_ = 0;
};

}  // namespace psgd
