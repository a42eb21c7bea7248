#include "compression/cuda/powersgd.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const PowersgdTwin&, uint32_t);

}  // namespace psgd::cuda
