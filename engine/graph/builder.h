// Builds a network so that it reads like its paper: one line a layer. Parameters get the names that
// the same layers have in PyTorch ("conv1.weight"), in the order of the lines, and PyTorch's
// default initial values.
//
// The first layer that does not fit ends it: later calls do nothing, and Finish gives the error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/input_shape.h"
#include "engine/ops/rules.h"
#include "proto/config.pb.h"

namespace psgd {

enum class Mode { kTrain, kEvaluate };

// A network with its loss; forward only until it is differentiated.
struct ModelGraph {
  Graph graph;
  TensorId input = kNoTensor;   // N C H W; tokens: N T; indices: N F
  TensorId values = kNoTensor;  // of the indices: N F
  TensorId logits = kNoTensor;  // of the indices; external in evaluation, where samples are ranked
  TensorId labels = kNoTensor;  // N, or N T, or N H W
  TensorId result = kNoTensor;  // see softmax_cross_entropy.h
  // Of the reverse pass: the tensors from one id up to the other.
  TensorId gradients_begin = 0, gradients_end = 0;
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

struct LinearLayer {
  int64_t outputs = 0;
  bool bias = true;
  // Of first weights around 0; biases then start at 0. 0: PyTorch's default.
  double stddev = 0;
};

struct AttentionLayer {
  int heads = 1;
  bool causal = false;
  TensorId lengths = kNoTensor;  // how many keys of each sample are not padding; all
  double stddev = 0;             // as LinearLayer's, of queries, keys and values
  double out_stddev = 0;         // and of the output
};

struct RecurrentLayer {
  psgd::Recurrent::Kind kind = psgd::Recurrent::Kind::kLstm;
  int64_t width = 0;
  int index = 0;  // of the layer in its stack, as in PyTorch's names: "rnn.weight_ih_l0"
};

// Not thread-safe.
class NetworkBuilder {
 public:
  NetworkBuilder(Mode mode, int batch, const InputShape& shape);

  // The input, by what the network takes; when samples are of the other kind, that is the error.
  TensorId image();
  TensorId tokens();
  TensorId pair();     // of sequences, the source and the other one behind it
  TensorId indices();  // of sparse vectors
  int classes() const { return shape_.classes; }
  int length() const { return shape_.length; }
  int source() const { return shape_.source; }
  int vocabulary() const { return shape_.vocabulary; }
  int entries() const { return shape_.entries; }
  // For a network that no layer's shape can refuse.
  void Refuse(const std::string& why);

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
  TensorId Scale(const std::string& name, TensorId x, float factor);
  // What `values` makes, which nothing trains.
  TensorId Constant(const std::string& name, const Shape& shape,
                    const std::function<std::vector<float>()>& values);
  // Along the channels.
  TensorId Concat(const std::string& name, const std::vector<TensorId>& parts);
  TensorId Slice(const std::string& name, TensorId x, const psgd::Slice& op, int64_t length);
  // `after`: how much follows x, one number an axis, as op.before.
  TensorId Pad(const std::string& name, TensorId x, const psgd::Pad& op, const Shape& after);
  TensorId Upsample(const std::string& name, TensorId x, int factor);
  TensorId Flatten(TensorId x);

  // Layers of sequences, which are N T C; those of one axis work on the last one.
  // A table of `rows` x `width` weights NAME.weight, from N(0, stddev^2). `sparse`: nothing but
  // Embed reads it.
  TensorId Table(const std::string& name, int64_t rows, int64_t width, double stddev, bool sparse);
  TensorId Embed(const std::string& name, TensorId index, TensorId table);
  // Adds `rows`, of the last axes of x, to x.
  TensorId AddRows(const std::string& name, TensorId x, TensorId rows);
  TensorId Linear(const std::string& name, TensorId x, const LinearLayer& layer);
  // With the table's rows as weights, and no bias.
  TensorId LinearByTable(const std::string& name, TensorId x, TensorId table);
  TensorId LayerNorm(const std::string& name, TensorId x);
  // Attention of a sequence to another one, or to itself, with weights q_proj, k_proj, v_proj and
  // out_proj.
  TensorId Attention(const std::string& name, TensorId x, TensorId other,
                     const AttentionLayer& layer);
  // How many tokens of each sample's source are not padding.
  TensorId SourceLengths(const std::string& name);
  TensorId Recurrent(const std::string& name, TensorId x, const RecurrentLayer& layer);

  // Of sparse vectors: a weight for each feature and output, NAME.weight of features x outputs, and
  // a bias that decays as the weights do. All start at zero.
  TensorId SparseLinear(const std::string& name, int64_t outputs);
  // Two logits from one a sample, that of class 1 against class 0: 0 and x. Softmax of them is the
  // logistic function of x.
  TensorId AgainstZero(const std::string& name, TensorId x);

  // Ends the network with the config's loss over the logits: of samples, tokens or pixels, with a
  // label each.
  absl::StatusOr<ModelGraph> Finish(TensorId logits, const ModelConfig& config = {});

 private:
  TensorId NewParameter(const std::string& name, Shape shape, Parameter parameter);
  // Weights are drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)); so are biases.
  TensorId NewWeight(const std::string& name, Shape shape, int64_t fan_in, bool decay);
  TensorId NewConvWeight(const std::string& name, const Shape& shape);
  TensorId NewConvBias(const std::string& name, int channels, const Shape& weight);
  TensorId Activation(psgd::Activation::Kind kind, const std::string& name, TensorId x,
                      float slope = 0);
  TensorId Pool(Pool::Kind kind, const std::string& name, TensorId x, const PoolLayer& layer);
  TensorId Input(bool right, const char* wanted);
  TensorId Reshape(const std::string& name, TensorId x, Shape shape);
  // Runs `make` unless an error came before; keeps its error.
  TensorId Layer(const std::function<absl::StatusOr<TensorId>()>& make);
  std::string NextName(const std::string& kind);

  const Mode mode_;
  const InputShape shape_;
  ModelGraph model_;
  absl::Status status_;
  bool he_initial_ = false;
  uint32_t dropouts_ = 0;
  int unnamed_ = 0;
};

}  // namespace psgd
