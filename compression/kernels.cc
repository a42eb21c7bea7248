#include "compression/kernels.h"

#include "compression/scalar/dense.h"
#include "compression/scalar/fp16.h"
#include "compression/scalar/onebit.h"
#include "compression/scalar/ternary.h"
#include "compression/scalar/topk.h"
#include "compression/simd/dense.h"
#include "compression/simd/fp16.h"
#include "compression/simd/onebit.h"
#include "compression/simd/ternary.h"
#include "compression/simd/topk.h"

namespace psgd {
namespace {

constexpr CodecKernels kScalar = {
    "scalar",
    {scalar::Add, scalar::AddScaled, scalar::AllFinite, scalar::SumSquares},
    {scalar::EncodeHalves, scalar::AddHalves, scalar::AllFiniteHalves},
    {scalar::SplitSigns, scalar::AddSigns},
    {scalar::Measure, scalar::DrawTrits, scalar::UnpackTrits, scalar::AddTrits},
    {scalar::Gather},
};

constexpr CodecKernels kSimd = {
    "simd",
    {simd::Add, simd::AddScaled, simd::AllFinite, simd::SumSquares},
    {simd::EncodeHalves, simd::AddHalves, simd::AllFiniteHalves},
    {simd::SplitSigns, simd::AddSigns},
    {simd::Measure, simd::DrawTrits, simd::UnpackTrits, simd::AddTrits},
    {simd::Gather},
};

}  // namespace

const CodecKernels& KernelsFor(CodecBackend backend) {
  return backend == CodecBackend::kScalar ? kScalar : kSimd;
}

}  // namespace psgd
