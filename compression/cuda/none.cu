#include "compression/cuda/none.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const NoneTwin&, uint32_t);

}  // namespace psgd::cuda
