// Builds a network so that its code reads like its paper: one line a layer. Parameters get
// PyTorch's names ("conv1.weight") and default initial values, in the order of the lines.
//
// After the first layer that does not fit, later calls do nothing, and Finish returns the error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/sample_shape.h"
#include "common/status.h"
#include "engine/graph/graph.h"
#include "engine/ops/rules.h"
#include "proto/config.pb.h"

namespace psgd {

enum class Mode { kTrain, kEvaluate };

// A network with its loss. It has only a forward pass until Differentiate adds the reverse pass.
struct ModelGraph {
  Graph graph;
  TensorId input = kNoTensor;    // N C H W; tokens: N T; indices: N F
  TensorId values = kNoTensor;   // the values at the indices: N F
  TensorId logits = kNoTensor;   // of samples with one label; external in evaluation
  TensorId labels = kNoTensor;   // N, or N T, or N H W
  TensorId targets = kNoTensor;  // of samples that have them: N C
  TensorId result = kNoTensor;   // see softmax_cross_entropy.h
  // Tensors of the reverse pass: ids in [begin, end).
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

struct PoolLayer {
  Extent kernel = 1;
  Extent stride = 1;
  Extent pad = 0;
  bool ceil = false;  // max pooling only; see ops/pool.h
};

struct LinearLayer {
  int64_t outputs = 0;
  bool bias = true;
  // Initial weights are N(0, stddev^2) and biases 0. stddev 0: PyTorch's defaults.
  double stddev = 0;
};

struct AttentionLayer {
  int heads = 1;
  bool causal = false;
  TensorId lengths = kNoTensor;  // keys before the padding, by sample; kNoTensor: all keys
  double stddev = 0;             // LinearLayer::stddev of queries, keys and values
  double out_stddev = 0;         // LinearLayer::stddev of the output
};

struct RecurrentLayer {
  psgd::Recurrent::Kind kind = psgd::Recurrent::Kind::kLstm;
  int64_t width = 0;
  int index = 0;  // the layer's place in its stack, used in names: "rnn.weight_ih_l0"
};

// Not thread-safe.
class NetworkBuilder {
 public:
  NetworkBuilder(Mode mode, int batch, const SampleShape& shape);

  // The input that the network takes. Samples of another kind are an error.
  TensorId image();
  TensorId tokens();
  TensorId pair();     // two sequences in one row: the source, then the decoder's input
  TensorId text();     // a sequence with one label or target, or several targets
  TensorId indices();  // of sparse vectors
  int classes() const { return shape_.classes; }  // or the number of targets
  int targets() const { return shape_.targets; }
  int length() const { return shape_.length; }
  int source() const { return shape_.source; }
  int vocabulary() const { return shape_.vocabulary; }
  int entries() const { return shape_.entries; }
  // Ends the network with this error, for limits that no layer checks.
  void Refuse(const std::string& why);

  // Later convolutions start with weights from N(0, 2 / fan_out) and zero biases (He et al., 2015).
  // With PyTorch's default the signal fades in deep networks without normalization.
  void UseHeInitial() { he_initial_ = true; }

  TensorId Conv2d(const std::string& name, TensorId x, const ConvLayer& layer);
  TensorId ConvTranspose2d(const std::string& name, TensorId x, const ConvLayer& layer);
  TensorId MaxPool(const std::string& name, TensorId x, const PoolLayer& layer);
  TensorId AveragePool(const std::string& name, TensorId x, const PoolLayer& layer);
  // Each channel's mean, flattened to N C.
  TensorId GlobalAveragePool(const std::string& name, TensorId x);
  TensorId AdaptiveAveragePool(const std::string& name, TensorId x, Extent size);
  // Flattens images first.
  TensorId Dense(const std::string& name, TensorId x, int64_t outputs);
  TensorId BatchNorm(const std::string& name, TensorId x, float epsilon = 1e-5f);
  TensorId Relu(TensorId x);
  TensorId Gelu(TensorId x);
  // Returns x in evaluation or at rate 0.
  TensorId Dropout(TensorId x, float rate);
  TensorId Add(const std::string& name, TensorId a, TensorId b);
  TensorId Mul(const std::string& name, TensorId a, TensorId b);
  TensorId Scale(const std::string& name, TensorId x, float factor);
  // An untrained constant with the values that `values` returns.
  TensorId Constant(const std::string& name, const Shape& shape,
                    const std::function<std::vector<float>()>& values);
  // Joins the parts along the channels.
  TensorId Concat(const std::string& name, const std::vector<TensorId>& parts);
  TensorId Slice(const std::string& name, TensorId x, const psgd::Slice& op, int64_t length);
  // `after`: elements to add behind x, one number an axis. op.before says how many come before x.
  TensorId Pad(const std::string& name, TensorId x, const psgd::Pad& op, const Shape& after);
  TensorId Flatten(TensorId x);

  // Layers of sequences, which are N T C. Layers over one axis work on the last axis.
  // A table of `rows` x `width` weights NAME.weight, from N(0, stddev^2). `sparse`: only Embed
  // reads the table.
  TensorId Table(const std::string& name, int64_t rows, int64_t width, double stddev, bool sparse);
  TensorId Embed(const std::string& name, TensorId index, TensorId table);
  // Adds `rows` to x. The shape of `rows` is that of x's last axes.
  TensorId AddRows(const std::string& name, TensorId x, TensorId rows);
  TensorId Linear(const std::string& name, TensorId x, const LinearLayer& layer);
  // A dense layer without bias whose weights are the table's rows.
  TensorId LinearByTable(const std::string& name, TensorId x, TensorId table);
  TensorId LayerNorm(const std::string& name, TensorId x);
  // Attention of sequence x to sequence `other`, which may be x, with weights q_proj, k_proj,
  // v_proj and out_proj.
  TensorId Attention(const std::string& name, TensorId x, TensorId other,
                     const AttentionLayer& layer);
  // The number of source tokens before the padding, by sample.
  TensorId SourceLengths(const std::string& name);
  // The mean of x, N T C, over the tokens of the input before their padding: N C. `lengths`: by
  // sample. 0 of a sample without tokens.
  TensorId MeanOverTokens(const std::string& name, TensorId x, TensorId lengths);
  TensorId Recurrent(const std::string& name, TensorId x, const RecurrentLayer& layer);

  // A linear layer over sparse vectors: NAME.weight, features x outputs, and a bias that decays as
  // the weights do. All values start at zero.
  TensorId SparseLinear(const std::string& name, int64_t outputs);
  // Makes two logits, 0 and x, from each sample's logit x of class 1 against class 0. Their softmax
  // is the logistic function of x.
  TensorId AgainstZero(const std::string& name, TensorId x);

  // Ends the network with the config's loss. Each sample, token or pixel has its logits and a
  // label.
  absl::StatusOr<ModelGraph> Finish(TensorId logits, const ModelConfig& config = {});

 private:
  TensorId NewParameter(const std::string& name, Shape shape, Parameter parameter);
  // Weights and biases are drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
  TensorId NewWeight(const std::string& name, Shape shape, int64_t fan_in, bool decay);
  TensorId NewConvWeight(const std::string& name, const Shape& shape);
  TensorId NewConvBias(const std::string& name, int channels, const Shape& weight);
  TensorId Pool(Pool::Kind kind, const std::string& name, TensorId x, const PoolLayer& layer);
  TensorId Input(bool right, const char* wanted);
  TensorId Reshape(const std::string& name, TensorId x, Shape shape);
  // Runs `make` unless an earlier layer failed; keeps its error.
  TensorId Layer(const std::function<absl::StatusOr<TensorId>()>& make);
  std::string NextName(const std::string& kind);

  const Mode mode_;
  const SampleShape shape_;
  ModelGraph model_;
  absl::Status status_;
  bool he_initial_ = false;
  uint32_t dropouts_ = 0;
  int unnamed_ = 0;
};

}  // namespace psgd
