#include "compression/kernels.h"

#include "compression/scalar/bf16.h"
#include "compression/scalar/dense.h"
#include "compression/scalar/fp16.h"
#include "compression/scalar/low_rank.h"
#include "compression/scalar/momentum.h"
#include "compression/scalar/natural.h"
#include "compression/scalar/onebit.h"
#include "compression/scalar/quantize.h"
#include "compression/scalar/ternary.h"
#include "compression/scalar/topk.h"
#include "compression/simd/bf16.h"
#include "compression/simd/dense.h"
#include "compression/simd/fp16.h"
#include "compression/simd/low_rank.h"
#include "compression/simd/momentum.h"
#include "compression/simd/natural.h"
#include "compression/simd/onebit.h"
#include "compression/simd/quantize.h"
#include "compression/simd/ternary.h"
#include "compression/simd/topk.h"

namespace psgd {
namespace {

constexpr CodecKernels kScalar = {
    "scalar",
    {scalar::Add, scalar::AddScaled, scalar::AllFinite, scalar::SumSquares, scalar::Blend},
    {scalar::EncodeHalves, scalar::AddHalves, scalar::AllFiniteHalves},
    {scalar::EncodeBrains, scalar::AddBrains, scalar::AllFiniteBrains},
    {scalar::SplitSigns, scalar::AddSigns},
    {scalar::Measure, scalar::DrawTrits, scalar::UnpackTrits, scalar::AddTrits},
    {scalar::Largest, scalar::Quantize, scalar::PackCodes, scalar::UnpackCodes},
    {scalar::EncodeNatural, scalar::AddNatural},
    {scalar::Gather},
    {scalar::Accumulate},
    {scalar::Dot, scalar::Expand, scalar::Multiply},
};

constexpr CodecKernels kSimd = {
    "simd",
    {simd::Add, simd::AddScaled, simd::AllFinite, simd::SumSquares, simd::Blend},
    {simd::EncodeHalves, simd::AddHalves, simd::AllFiniteHalves},
    {simd::EncodeBrains, simd::AddBrains, simd::AllFiniteBrains},
    {simd::SplitSigns, simd::AddSigns},
    {simd::Measure, simd::DrawTrits, simd::UnpackTrits, simd::AddTrits},
    {simd::Largest, simd::Quantize, simd::PackCodes, simd::UnpackCodes},
    {simd::EncodeNatural, simd::AddNatural},
    {simd::Gather},
    {simd::Accumulate},
    {simd::Dot, simd::Expand, simd::Multiply},
};

}  // namespace

const CodecKernels& KernelsFor(CodecBackend backend) {
  return backend == CodecBackend::kScalar ? kScalar : kSimd;
}

}  // namespace psgd
