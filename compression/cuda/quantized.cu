#include "compression/cuda/quantized.h"

#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const QuantizedTwin&, uint32_t);

}  // namespace psgd::cuda
