// Numbers of 16 bits. Part of kernels.cc.
#include "compression/dense/brain.h"
#include "compression/dense/half.h"
#include "compression/scalar/half.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

// A vector of numbers as they are sent, and their values.
template <typename Wire>
struct Rounded {
  hn::Vec<Wire> sent;
  FloatVector value;
};

struct BrainVectors {
  using Format = BrainFormat;
  using Wire = hn::Rebind<uint16_t, Float>;

  static HWY_INLINE Rounded<Wire> Round(FloatVector value) {
    const Unsigned d;
    const auto bits = hn::BitCast(d, value);
    const auto sign = hn::And(bits, hn::Set(d, 0x80000000u));
    const auto magnitude = hn::AndNot(hn::Set(d, 0x80000000u), bits);
    const auto even = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(d, 1u));
    const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(d, 0x7FFFu)), even);
    const auto finite =
        hn::Min(hn::And(rounded, hn::Set(d, 0xFFFF0000u)), hn::Set(d, kLargestBrain << 16));
    const auto nan = hn::Gt(hn::BitCast(Signed(), magnitude), hn::Set(Signed(), 0x7F800000));
    const auto sent =
        hn::Or(sign, hn::IfThenElse(hn::RebindMask(d, nan), hn::Set(d, 0x7FC00000u), finite));
    return {hn::DemoteTo(Wire(), hn::BitCast(Signed(), hn::ShiftRight<16>(sent))),
            hn::BitCast(Float(), sent)};
  }
  static HWY_INLINE FloatVector ValueOf(hn::Vec<Wire> sent) {
    return hn::BitCast(Float(), hn::ShiftLeft<16>(hn::PromoteTo(Unsigned(), sent)));
  }
};

// Only for CPUs that convert: Highway's replacement elsewhere does not round to nearest even.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
struct HalfVectors {
  using Format = HalfFormat;
  using Wire = hn::Rebind<hwy::float16_t, Float>;

  static HWY_INLINE Rounded<Wire> Round(FloatVector value) {
    const FloatVector top = hn::Set(Float(), kLargestHalf);
    // The operand order lets NaN through, as the scalar twin does.
    const auto sent = hn::DemoteTo(Wire(), hn::Max(hn::Neg(top), hn::Min(top, value)));
    return {sent, ValueOf(sent)};
  }
  static HWY_INLINE FloatVector ValueOf(hn::Vec<Wire> sent) { return hn::PromoteTo(Float(), sent); }
};
#endif

template <typename Vectors>
auto* WireAt(std::byte* bytes) {
  return reinterpret_cast<hn::TFromD<typename Vectors::Wire>*>(bytes);
}
template <typename Vectors>
const auto* WireAt(const std::byte* bytes) {
  return reinterpret_cast<const hn::TFromD<typename Vectors::Wire>*>(bytes);
}

template <typename Vectors, bool kKeep>
HWY_INLINE void EncodeVector(const float* gradient, float* residual, std::byte* out) {
  FloatVector corrected = LoadFloats(gradient);
  if constexpr (kKeep) corrected = hn::Add(corrected, LoadFloats(residual));
  const auto rounded = Vectors::Round(corrected);
  hn::StoreU(rounded.sent, typename Vectors::Wire(), WireAt<Vectors>(out));
  if constexpr (kKeep) hn::StoreU(hn::Sub(corrected, rounded.value), Float(), residual);
}

template <typename Vectors>
void EncodeHalves(std::span<const float> gradient, float* residual, std::byte* out) {
  size_t i = 0;
  for (; i + kWidth <= gradient.size(); i += kWidth) {
    if (residual != nullptr) {
      EncodeVector<Vectors, true>(&gradient[i], residual + i, out + i * kHalfBytes);
    } else {
      EncodeVector<Vectors, false>(&gradient[i], nullptr, out + i * kHalfBytes);
    }
  }
  scalar::EncodeHalves<typename Vectors::Format>(
      gradient.subspan(i), residual == nullptr ? nullptr : residual + i, out + i * kHalfBytes);
}

template <typename Vectors>
void AddHalves(float scale, const std::byte* halves, std::span<float> y) {
  const FloatVector factor = hn::Set(Float(), scale);
  size_t i = 0;
  for (; i + kWidth <= y.size(); i += kWidth) {
    const auto sent = hn::LoadU(typename Vectors::Wire(), WireAt<Vectors>(halves + i * kHalfBytes));
    const FloatVector product = hn::Mul(factor, Vectors::ValueOf(sent));
    hn::StoreU(hn::Add(LoadFloats(&y[i]), product), Float(), &y[i]);
  }
  scalar::AddHalves<typename Vectors::Format>(scale, halves + i * kHalfBytes, y.subspan(i));
}

template <typename Format>
bool AllFiniteHalves(const std::byte* halves, size_t count) {
  const hn::ScalableTag<uint16_t> d;
  const auto exponent = hn::Set(d, Format::kExponent);
  auto largest = hn::Zero(d);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto half = hn::LoadU(d, reinterpret_cast<const uint16_t*>(halves + i * kHalfBytes));
    largest = hn::Max(largest, hn::And(half, exponent));
  }
  const bool finite = hn::AllFalse(d, hn::Eq(largest, exponent));
  return finite && scalar::AllFiniteHalves<Format>(halves + i * kHalfBytes, count - i);
}

template <typename Vectors>
constexpr HalfKernels kHalfKernels = {EncodeHalves<Vectors>, AddHalves<Vectors>,
                                      AllFiniteHalves<typename Vectors::Format>};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
constexpr HalfKernels kBinary16Kernels = kHalfKernels<HalfVectors>;
#else
constexpr HalfKernels kBinary16Kernels = scalar::kHalfKernels<HalfFormat>;
#endif

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
