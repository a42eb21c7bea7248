#include "compression/cuda/randomk.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const RandomkTwin&, uint32_t);

}  // namespace psgd::cuda
