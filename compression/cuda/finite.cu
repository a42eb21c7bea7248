#include "compression/cuda/finite.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template void CudaQueue::Launch(uint32_t, const FiniteBody&);

}  // namespace psgd::cuda
