// Newton-Schulz iterations with cuBLAS.
#pragma once

#include "engine/cudnn/device.h"

namespace psgd::cudnn {

struct OrthogonalMemory {
  float* x;
  float* scratch;  // NewtonSchulz::ScratchFloats
  double* sums;    // UpdateSums of x
};

// Launches NewtonSchulz on the row-major matrix x. The same x gives the same bits.
absl::Status MakeOrthogonal(const Device& device, cublasComputeType_t compute, size_t rows,
                            size_t columns, const OrthogonalMemory& memory);

}  // namespace psgd::cudnn
