#include "compression/sparse/nonzero.h"

#include "compression/sparse/sparse_payload.h"

namespace psgd {
namespace {
// Indices take less than two bits for each element of the slice, so entries are shorter up to here.
double MostDensity(ValueCoding coding) {
  return coding == ValueCoding::kByte ? 0.75 : coding == ValueCoding::kHalf ? 0.85 : 0.9;
}
}  // namespace

bool NonzeroEncoder::Encode(std::span<const float> gradient, std::vector<std::byte>* out,
                            ValueCoding coding) {
  const auto most = static_cast<size_t>(MostDensity(coding) * static_cast<double>(gradient.size()));
  indices_.clear();
  values_.clear();
  for (size_t i = 0; i < gradient.size(); ++i) {
    if (gradient[i] == 0) continue;
    if (indices_.size() == most) return false;
    indices_.push_back(static_cast<uint32_t>(i));
    values_.push_back(gradient[i]);
  }
  WriteSparse({indices_, values_, gradient.size()}, coding, -1, KernelsFor(CodecBackend::kSimd),
              out);
  return true;
}

}  // namespace psgd
