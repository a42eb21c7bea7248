#include "compression/cuda/ternary.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const TernaryTwin&, uint32_t);

}  // namespace psgd::cuda
