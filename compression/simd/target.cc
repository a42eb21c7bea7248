#include "absl/strings/string_view.h"
#include "compression/codec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/target.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

const char* Name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace psgd {
namespace simd {
HWY_EXPORT(Name);
}  // namespace simd

absl::string_view SimdTargetName() {
  using namespace simd;
  return HWY_DYNAMIC_DISPATCH(Name)();
}

}  // namespace psgd
#endif  // HWY_ONCE
