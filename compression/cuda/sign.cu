#include "compression/cuda/sign.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const SignTwin&, uint32_t);
template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const SignumTwin&, uint32_t);

}  // namespace psgd::cuda
