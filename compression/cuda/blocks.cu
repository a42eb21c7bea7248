#include "compression/cuda/blocks.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const BlocksTwin&, uint32_t);

}  // namespace psgd::cuda
