#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {

// A decoder-only transformer (Radford et al., 2019): `layers` blocks of causal attention with
// `heads` heads and of two dense layers. Each part follows a layer normalization and is added to
// its input. Positions are learned, and the token table also makes the logits. Initial weights are
// GPT-2's: the last weights of a part are divided by the root of the number of additions.
TensorId Gpt(NetworkBuilder& net, const ModelConfig& config) {
  const int64_t width = config.width();
  const double stddev = 0.02, last_stddev = stddev / std::sqrt(2.0 * config.layers());
  const auto drop = [&](TensorId x) { return net.Dropout(x, config.dropout()); };

  const TensorId tokens = net.tokens();
  const TensorId wte = net.Table("wte", net.vocabulary(), width, stddev, /*sparse=*/false);
  const TensorId wpe = net.Table("wpe", net.length(), width, stddev, /*sparse=*/false);
  TensorId x = drop(net.AddRows("places", net.Embed("embedding", tokens, wte), wpe));
  for (int i = 0; i < config.layers(); ++i) {
    const std::string h = absl::StrCat("h.", i);
    const TensorId normed = net.LayerNorm(h + ".ln_1", x);
    const TensorId attended = net.Attention(
        h + ".attn", normed, normed,
        {.heads = config.heads(), .causal = true, .stddev = stddev, .out_stddev = last_stddev});
    x = net.Add(h + ".attended", x, drop(attended));
    TensorId y = net.LayerNorm(h + ".ln_2", x);
    y = net.Gelu(net.Linear(h + ".mlp.c_fc", y, {.outputs = 4 * width, .stddev = stddev}));
    y = net.Linear(h + ".mlp.c_proj", y, {.outputs = width, .stddev = last_stddev});
    x = net.Add(h + ".out", x, drop(y));
  }
  return net.LinearByTable("logits", net.LayerNorm("ln_f", x), wte);
}

}  // namespace psgd::zoo
