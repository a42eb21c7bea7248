#include "compression/cuda/topk.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const TopkTwin&, uint32_t);
template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const ThresholdTwin&, uint32_t);

}  // namespace psgd::cuda
