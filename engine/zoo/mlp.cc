#include "absl/strings/str_cat.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {

// Dense layers of the widths in `hidden` (default: one layer of 128), each with relu and dropout.
TensorId Mlp(NetworkBuilder& net, const ModelConfig& config) {
  std::vector<int64_t> widths(config.hidden().begin(), config.hidden().end());
  if (widths.empty()) widths = {128};
  TensorId x = net.image();
  int layer = 1;
  for (int64_t width : widths) {
    x = net.Dense(absl::StrCat("fc", layer++), x, width);
    x = net.Dropout(net.Relu(x), config.dropout());
  }
  return net.Dense(absl::StrCat("fc", layer), x, net.classes());
}

}  // namespace psgd::zoo
