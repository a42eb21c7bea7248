#include "compression/cuda/dgc.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const DgcTwin&, uint32_t);

}  // namespace psgd::cuda
