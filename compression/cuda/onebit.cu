#include "compression/cuda/onebit.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const OnebitTwin&, uint32_t);

}  // namespace psgd::cuda
