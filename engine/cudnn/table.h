// What the two embeddings share: rows of a table, weighted or not.
#pragma once

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// `value` is kNoTensor where rows have no weights.
absl::Status LowerTable(const Context& c, TensorId index, TensorId value, TensorId w, TensorId y);
absl::Status LowerTableGradient(const Context& c, TensorId index, TensorId value, TensorId dy,
                                TensorId dw);

}  // namespace psgd::cudnn
