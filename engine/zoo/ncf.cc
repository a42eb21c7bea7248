#include "absl/strings/str_cat.h"
#include "engine/zoo/models.h"

namespace psgd::zoo {

// Neural matrix factorization (He et al., 2017). One logit combines the product of a user's and an
// item's factors of `width` with dense layers, of the widths in `hidden`, over other factors of
// both. Users and items share each table, users first; samples contain the row indices.
TensorId Ncf(NetworkBuilder& net, const ModelConfig& config) {
  std::vector<int64_t> widths(config.hidden().begin(), config.hidden().end());
  if (widths.empty()) widths = {64, 32, 16};
  if (net.entries() != 2 || net.classes() != 2 || widths[0] % 2 != 0) {
    net.Refuse(absl::StrCat(
        "ncf takes pairs of a user and an item with two classes (data.format ratings), and an even "
        "first width in model.hidden; here samples have ",
        net.entries(), " entries and ", net.classes(), " classes"));
  }
  const TensorId pair = net.indices();
  const auto factors = [&](const std::string& name, int64_t width) {
    return net.Embed(name + "_pair", pair,
                     net.Table(name, net.vocabulary(), width, 0.01, /*sparse=*/true));
  };
  const auto of = [&](const std::string& name, TensorId x, int64_t which) {
    return net.Flatten(net.Slice(name, x, {.axis = 1, .begin = which}, 1));
  };

  const TensorId gmf = factors("gmf", config.width());
  const TensorId product = net.Mul("product", of("gmf_user", gmf, 0), of("gmf_item", gmf, 1));
  TensorId x = net.Flatten(factors("mlp", widths[0] / 2));
  int layer = 1;
  for (size_t i = 1; i < widths.size(); ++i) {
    x = net.Relu(net.Dense(absl::StrCat("fc", layer++), x, widths[i]));
    x = net.Dropout(x, config.dropout());
  }
  return net.AgainstZero("logits", net.Dense("predict", net.Concat("both", {product, x}), 1));
}

}  // namespace psgd::zoo
