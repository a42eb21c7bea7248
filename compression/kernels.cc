#include "compression/kernels.h"

#include "compression/scalar/half.h"
#include "compression/scalar/loops.h"

namespace psgd {
namespace simd {

const CodecKernels& Kernels();  // simd/kernels.cc

}  // namespace simd
namespace scalar {
namespace {

constexpr CodecKernels kKernels = {
    {Add, AddScaled, LargestMagnitude, SumSquares, Blend},
    kHalfKernels<HalfFormat>,
    kHalfKernels<BrainFormat>,
    {SplitSigns, AddSigns},
    {Measure, DrawTrits, UnpackTrits, AddTrits},
    {Largest, Quantize, PackCodes, UnpackCodes},
    {EncodeNatural, AddNatural},
    {Gather},
    {SumLevels},
    {Accumulate},
    {Dot, Expand, Multiply},
};

}  // namespace
}  // namespace scalar

const CodecKernels& KernelsFor(CodecBackend backend) {
  return backend == CodecBackend::kScalar ? scalar::kKernels : simd::Kernels();
}

}  // namespace psgd
