#include "compression/cuda/norm.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template void CudaQueue::Launch(uint32_t, const StretchSumBody<KnownCount, SquareOfValue>&);
template void CudaQueue::Launch(uint32_t, const FoldBody<KnownCount, StoreSum>&);

}  // namespace psgd::cuda
