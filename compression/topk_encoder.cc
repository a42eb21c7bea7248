#include "compression/topk_encoder.h"

#include <algorithm>
#include <cmath>

#include "compression/topk_payload.h"

namespace psgd {
namespace {

constexpr size_t kSampledFrom = 16384;  // fewer elements are searched as a whole
constexpr size_t kSampledShare = 16;    // and so is a slice of which more than 1/16 is kept
constexpr size_t kGatherBlock = 2048;

}  // namespace

void TopkEncoder::Encode(const EncodeInput& input, std::vector<std::byte>* out) {
  const size_t elements = input.gradient.size();
  const size_t keep = std::min<size_t>(
      elements, std::max(1.0, std::round(density_ * static_cast<double>(elements))));
  count_ = 0;
  const bool sampled = elements >= kSampledFrom && keep <= elements / kSampledShare;
  if (keep > 0 && !(sampled && SelectFromSample(input, keep))) {
    if (!sampled && !input.residual.empty()) kernels_.dense.add(input.gradient, input.residual);
    SelectFromAll(input.residual.empty() ? input.gradient : input.residual, keep);
  }
  if (!input.residual.empty()) {
    for (size_t i = 0; i < count_; ++i) input.residual[indices_[i]] = 0;
  }
  WriteTopkPayload(std::span(indices_).first(count_), std::span(values_).first(count_), out);
}

bool TopkEncoder::SelectFromSample(const EncodeInput& input, size_t keep) {
  const size_t elements = input.gradient.size();
  const size_t most = 4 * keep + kGatherBlock;
  const uint32_t least = GuessLeast(input.gradient, input.residual, keep, &scratch_);
  for (size_t begin = 0; begin < elements; begin += kGatherBlock) {
    if (count_ > most) {
      if (input.residual.empty()) break;
      kernels_.dense.add(input.gradient.subspan(begin), input.residual.subspan(begin));
      break;
    }
    Gather(input.gradient.subspan(begin, std::min(kGatherBlock, elements - begin)),
           input.residual.empty() ? nullptr : input.residual.data() + begin, least, begin);
  }
  if (count_ < keep || count_ > most) {
    count_ = 0;
    return false;
  }
  Cut cut = FindCut(std::span(values_).first(count_), keep, &scratch_);
  Apply(0, &cut);
  return true;
}

void TopkEncoder::SelectFromAll(std::span<const float> corrected, size_t keep) {
  Cut cut = FindCut(corrected, keep, &scratch_);
  for (size_t begin = 0; begin < corrected.size() && count_ < keep; begin += kGatherBlock) {
    const size_t before = count_;
    Gather(corrected.subspan(begin, std::min(kGatherBlock, corrected.size() - begin)), nullptr,
           cut.least, begin);
    Apply(before, &cut);
  }
}

void TopkEncoder::Gather(std::span<const float> gradient, float* residual, uint32_t least,
                         size_t first) {
  const size_t room = count_ + gradient.size() + kGatherSlack;
  if (indices_.size() < room) {
    indices_.resize(room + kGatherBlock);
    values_.resize(room + kGatherBlock);
  }
  count_ += kernels_.topk.gather(gradient, residual, least, static_cast<uint32_t>(first),
                                 indices_.data() + count_, values_.data() + count_);
}

void TopkEncoder::Apply(size_t begin, Cut* cut) {
  size_t kept = begin;
  for (size_t i = begin; i < count_; ++i) {
    indices_[kept] = indices_[i];
    values_[kept] = values_[i];
    const uint32_t bits = MagnitudeBits(values_[i]);
    const bool tie = bits == cut->least && cut->ties > 0;
    cut->ties -= tie;
    kept += tie || bits > cut->least;
  }
  count_ = kept;
}

}  // namespace psgd
