// The loops of this folder, compiled for each instruction set and chosen by CPU at run time.
#include "compression/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/kernels.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"

// An x86-64 build always contains a target without vectors; there the scalar twin does the work.
#define PSGD_HAS_VECTORS (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

#if PSGD_HAS_VECTORS
// These headers have no guards, and build on the first two.
// clang-format off
#include "compression/simd/vectors.h"
#include "compression/simd/philox.h"
#include "compression/simd/chunked.h"
#include "compression/simd/dense.h"
#include "compression/simd/half.h"
#include "compression/simd/low_rank.h"
#include "compression/simd/momentum.h"
#include "compression/simd/natural.h"
#include "compression/simd/onebit.h"
#include "compression/simd/quantize.h"
#include "compression/simd/ternary.h"
#include "compression/simd/topk.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

const CodecKernels& Kernels() {
#if PSGD_HAS_VECTORS
  static constexpr CodecKernels kKernels = {
      {Add, AddScaled, LargestMagnitude, SumSquares, Blend},
      kBinary16Kernels,
      kHalfKernels<BrainVectors>,
      {SplitSigns, AddSigns},
      {Measure, DrawTrits, UnpackTrits, AddTrits},
      {Largest, Quantize, PackCodes, UnpackCodes},
      {EncodeNatural, AddNatural},
      {Gather},
      {SumLevels},
      {Accumulate},
      {Dot, Expand, Multiply},
  };
  return kKernels;
#else
  return KernelsFor(CodecBackend::kScalar);
#endif
}

const char* Name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace psgd {
namespace simd {

HWY_EXPORT(Kernels);
HWY_EXPORT(Name);

const CodecKernels& Kernels() { return HWY_DYNAMIC_DISPATCH(Kernels)(); }
const char* TargetName() { return HWY_DYNAMIC_DISPATCH(Name)(); }

}  // namespace simd

absl::string_view SimdTargetName() { return simd::TargetName(); }

}  // namespace psgd
#endif  // HWY_ONCE
