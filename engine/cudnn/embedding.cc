#include "engine/cudnn/table.h"

namespace psgd::cudnn {

absl::Status Lower(const Embedding&, const Context& c) {
  return LowerTable(c, c.in(0), kNoTensor, c.in(1), c.out(0));
}

absl::Status Lower(const EmbeddingBackward&, const Context& c) {
  return LowerTableGradient(c, c.in(0), kNoTensor, c.in(1), c.out(0));
}

}  // namespace psgd::cudnn
