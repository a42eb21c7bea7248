// What a CUDA stream runs for device_codecs.cc.
#include "compression/cuda/coders.h"
#include "compression/cuda/finite.h"
#include "compression/cuda/norm.h"
#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const TwinOptions&);
template void CudaQueue::Launch(uint32_t, const ForAllBody<MarkNotFinite>&);
template void CudaQueue::Launch(uint32_t, const StretchSumBody<KnownCount, SquareOfValue>&);
template void CudaQueue::Launch(uint32_t, const FoldBody<KnownCount, StoreSum>&);

}  // namespace psgd::cuda
