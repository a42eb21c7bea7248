#include "compression/cuda/natural.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const NaturalTwin&, uint32_t);

}  // namespace psgd::cuda
