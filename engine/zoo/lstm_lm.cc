#include "engine/zoo/models.h"

namespace psgd::zoo {

// A language model of `layers` LSTM layers of `width` with dropout between them (Zaremba et al.,
// 2014). Every sequence starts from a state of zeros.
TensorId LstmLm(NetworkBuilder& net, const ModelConfig& config) {
  const int64_t width = config.width();
  const TensorId tokens = net.tokens();
  const TensorId table = net.Table("encoder", net.vocabulary(), width, 0.1, /*sparse=*/true);
  TensorId x = net.Dropout(net.Embed("embedding", tokens, table), config.dropout());
  for (int i = 0; i < config.layers(); ++i) {
    x = net.Recurrent("rnn", x, {.kind = Recurrent::Kind::kLstm, .width = width, .index = i});
    x = net.Dropout(x, config.dropout());
  }
  return net.Linear("decoder", x, {.outputs = net.classes()});
}

}  // namespace psgd::zoo
