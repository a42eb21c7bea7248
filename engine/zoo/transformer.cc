#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {
namespace {

// Sinusoidal positions: even values are sines, odd values cosines, with wavelengths from 2 pi to
// 10000 times that. Both sequences begin at place 0.
std::vector<float> Places(int source, int target, int64_t width) {
  std::vector<float> values;
  for (const int length : {source, target}) {
    for (int place = 0; place < length; ++place) {
      for (int64_t i = 0; i < width; ++i) {
        const double angle =
            place / std::pow(10000, static_cast<double>(i / 2 * 2) / static_cast<double>(width));
        values.push_back(static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle)));
      }
    }
  }
  return values;
}

// The layers of encoder and decoder. Initial weights are those of Glorot and Bengio (2010), from
// normal distributions.
class Layers {
 public:
  Layers(NetworkBuilder& net, const ModelConfig& config, TensorId source_lengths)
      : net_(net), config_(config), source_lengths_(source_lengths) {}

  // Attention of x to `source` without padding; without a source, to itself up to each place.
  TensorId Attend(const std::string& layer, const char* name, int norm, TensorId x,
                  TensorId source) {
    const double stddev = 1 / std::sqrt(static_cast<double>(config_.width()));
    const bool causal = source == kNoTensor;
    const TensorId y = net_.Attention(layer + name, x, causal ? x : source,
                                      {.heads = config_.heads(),
                                       .causal = causal,
                                       .lengths = causal ? kNoTensor : source_lengths_,
                                       .stddev = stddev,
                                       .out_stddev = stddev});
    return AddAndNormalise(layer, norm, x, y);
  }
  TensorId FeedForward(const std::string& layer, int norm, TensorId x) {
    const int64_t width = config_.width(), inner = 4 * width;
    const double stddev = std::sqrt(2.0 / static_cast<double>(width + inner));
    TensorId y = net_.Linear(layer + "linear1", x, {.outputs = inner, .stddev = stddev});
    y = net_.Linear(layer + "linear2", net_.Relu(y), {.outputs = width, .stddev = stddev});
    return AddAndNormalise(layer, norm, x, y);
  }

  // `layers` layers of an encoder, of sequences with padding.
  TensorId Encode(TensorId x) {
    for (int i = 0; i < config_.layers(); ++i) {
      const std::string layer = absl::StrCat("encoder.layers.", i, ".");
      x = FeedForward(layer, 2, Attend(layer, "self_attn", 1, x, x));
    }
    return x;
  }

 private:
  TensorId AddAndNormalise(const std::string& layer, int norm, TensorId x, TensorId y) {
    const std::string name = absl::StrCat(layer, "norm", norm);
    return net_.LayerNorm(name, net_.Add(name + ".sum", x, net_.Dropout(y, config_.dropout())));
  }

  NetworkBuilder& net_;
  const ModelConfig& config_;
  const TensorId source_lengths_;
};

struct Embedded {
  TensorId table;
  TensorId tokens;  // vectors with their positions
};

// A vector for each token, and its position in the source or behind it.
Embedded EmbedTokens(NetworkBuilder& net, const ModelConfig& config, TensorId input) {
  const int64_t width = config.width();
  const int source = net.source(), target = net.length() - source;
  const double root = std::sqrt(static_cast<double>(width));
  const TensorId table =
      net.Table("embedding", net.vocabulary(), width, 1 / root, /*sparse=*/false);
  const TensorId tokens =
      net.Scale("scaled", net.Embed("tokens", input, table), static_cast<float>(root));
  const TensorId places = net.Constant("positions", {net.length(), width},
                                       [&] { return Places(source, target, width); });
  return {table, net.Dropout(net.AddRows("places", tokens, places), config.dropout())};
}

}  // namespace

// The encoder-decoder transformer (Vaswani et al., 2017): encoder and decoder have `layers` layers
// each, with `heads` heads, dense layers four times as wide as the rest, and a layer normalization
// after each addition. Both and the logits use one token table.
TensorId Transformer(NetworkBuilder& net, const ModelConfig& config) {
  const TensorId pair = net.pair();
  const TensorId lengths = net.SourceLengths("source_lengths");
  const auto [table, both] = EmbedTokens(net, config, pair);
  Layers layers(net, config, lengths);
  const TensorId source =
      layers.Encode(net.Slice("source", both, {.axis = 1, .begin = 0}, net.source()));
  TensorId x =
      net.Slice("target", both, {.axis = 1, .begin = net.source()}, net.length() - net.source());
  for (int i = 0; i < config.layers(); ++i) {
    const std::string layer = absl::StrCat("decoder.layers.", i, ".");
    x = layers.Attend(layer, "self_attn", 1, x, kNoTensor);
    x = layers.Attend(layer, "multihead_attn", 2, x, source);
    x = layers.FeedForward(layer, 3, x);
  }
  return net.LinearByTable("logits", x, table);
}

// The encoder of the transformer above, and a dense layer on the mean of its outputs.
TensorId TransformerEncoder(NetworkBuilder& net, const ModelConfig& config) {
  const TensorId text = net.text();
  const TensorId lengths = net.SourceLengths("lengths");
  Layers layers(net, config, lengths);
  const TensorId x = layers.Encode(EmbedTokens(net, config, text).tokens);
  return net.Dense("fc", net.MeanOverTokens("mean", x, lengths), net.classes());
}

}  // namespace psgd::zoo
