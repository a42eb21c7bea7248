#include "engine/zoo/models.h"

namespace psgd::zoo {

// A dense layer on the mean of a text's token vectors of `width`, whose order does not matter
// (fastText without its n-grams; Joulin et al., 2016).
TensorId BagOfTokens(NetworkBuilder& net, const ModelConfig& config) {
  const TensorId tokens = net.text();
  const TensorId lengths = net.SourceLengths("lengths");
  const TensorId table =
      net.Table("embedding", net.vocabulary(), config.width(), 0.1, /*sparse=*/true);
  const TensorId mean =
      net.MeanOverTokens("mean", net.Embed("tokens.embedding", tokens, table), lengths);
  return net.Dense("fc", net.Dropout(mean, config.dropout()), net.classes());
}

}  // namespace psgd::zoo
