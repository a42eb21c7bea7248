#include "engine/cudnn/table.h"

namespace psgd::cudnn {

absl::Status Lower(const EmbeddingBag&, const Context& c) {
  return LowerTable(c, c.in(0), c.in(1), c.in(2), c.out(0));
}

absl::Status Lower(const EmbeddingBagBackward&, const Context& c) {
  return LowerTableGradient(c, c.in(0), c.in(1), c.in(2), c.out(0));
}

}  // namespace psgd::cudnn
