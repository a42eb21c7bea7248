// What a CUDA stream runs for device_codecs.cc.
#include "compression/cuda/coders.h"
#include "compression/cuda/copy_out.h"
#include "compression/cuda/finite.h"
#include "compression/cuda/norm.h"
#include "compression/cuda/queue.cuh"

namespace psgd::cuda {

using Parts = std::span<const Part>;

template std::unique_ptr<Coder<CudaQueue>> MakeCoder(const TwinOptions&);
template void CudaRunner::Run<ZeroBody>(CudaRunner&, Parts);
template void CudaRunner::Run<CopyOutBody>(CudaRunner&, Parts);
template void CudaRunner::Run<MapBody<MarkNotFinite>>(CudaRunner&, Parts);
template void CudaRunner::Run<SquaresBody<StoreSum>>(CudaRunner&, Parts);

}  // namespace psgd::cuda
