#include "compression/cuda/half.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const HalfTwin&, uint32_t);

}  // namespace psgd::cuda
