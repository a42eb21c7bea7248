// Code that Embedding and EmbeddingBag share: rows of a table, with or without weights.
#pragma once

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// `value`: the weights of the rows; kNoTensor: none.
absl::Status LowerTable(const Context& c, TensorId index, TensorId value, TensorId w, TensorId y);
absl::Status LowerTableGradient(const Context& c, TensorId index, TensorId value, TensorId dy,
                                TensorId dw);

}  // namespace psgd::cudnn
