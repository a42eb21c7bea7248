#include "compression/sparse/select.h"

#include <algorithm>
#include <bit>

namespace psgd {
namespace {

// Returns the bin in which the count from the top reaches `*keep`; subtracts the bins above it.
size_t FindBin(std::span<const uint32_t> bins, size_t* keep) {
  size_t bin = bins.size() - 1;
  while (bin > 0 && bins[bin] < *keep) *keep -= bins[bin--];
  return bin;
}

// Finds the keep-th largest of numbers below 2^bits, digit by digit. Reorders and shortens them.
uint32_t SelectAmong(std::vector<uint32_t>* numbers, int bits, size_t* keep) {
  constexpr int kDigit = 10;
  uint32_t selected = 0;
  for (int shift = bits - kDigit; shift >= 0; shift -= kDigit) {
    uint32_t bins[1 << kDigit] = {};
    constexpr uint32_t kMask = (1 << kDigit) - 1;
    for (uint32_t number : *numbers) ++bins[(number >> shift) & kMask];
    const uint32_t digit = static_cast<uint32_t>(FindBin(bins, keep));
    std::erase_if(*numbers, [=](uint32_t n) { return ((n >> shift) & kMask) != digit; });
    selected |= digit << shift;
  }
  return selected;
}

// Finds the cut of so few values that the bins of FindCut would take longer: the bins here divide
// the stretch from the least to the largest.
Cut FindCutOfFew(std::span<const float> values, size_t keep, std::vector<uint32_t>* scratch) {
  constexpr uint32_t kDigit = 8;
  scratch->resize(values.size());
  std::ranges::transform(values, scratch->begin(), MagnitudeBits);
  for (;;) {
    const auto [least, largest] = std::ranges::minmax(*scratch);
    if (least == largest) return {least, keep};
    const uint32_t width = std::bit_width(largest - least);
    const uint32_t shift = width > kDigit ? width - kDigit : 0;
    uint32_t bins[1 << kDigit] = {};
    for (uint32_t number : *scratch) ++bins[(number - least) >> shift];
    const size_t bin = FindBin(bins, &keep);
    std::erase_if(*scratch, [&, low = least](uint32_t n) { return (n - low) >> shift != bin; });
  }
}

}  // namespace

Cut FindCut(std::span<const float> values, size_t keep, std::vector<uint32_t>* scratch) {
  constexpr size_t kFew = 512;
  if (values.size() <= kFew) return FindCutOfFew(values, keep, scratch);
  constexpr int kLowBits = 20;
  constexpr size_t kBins = 1 << (31 - kLowBits);
  // There are two tables, so that equal neighbors do not wait for each other's count.
  uint32_t bins[2][kBins] = {};
  size_t i = 0;
  for (; i + 2 <= values.size(); i += 2) {
    ++bins[0][MagnitudeBits(values[i]) >> kLowBits];
    ++bins[1][MagnitudeBits(values[i + 1]) >> kLowBits];
  }
  if (i < values.size()) ++bins[0][MagnitudeBits(values[i]) >> kLowBits];
  for (size_t b = 0; b < kBins; ++b) bins[0][b] += bins[1][b];

  const uint32_t bin = static_cast<uint32_t>(FindBin(bins[0], &keep));
  scratch->resize(values.size() + 1);
  size_t found = 0;
  for (float value : values) {
    const uint32_t bits = MagnitudeBits(value);
    (*scratch)[found] = bits & ((1u << kLowBits) - 1);
    found += (bits >> kLowBits) == bin;
  }
  scratch->resize(found);
  const uint32_t low = SelectAmong(scratch, kLowBits, &keep);
  return {(bin << kLowBits) | low, keep};
}

uint32_t GuessLeast(size_t elements, absl::FunctionRef<void(size_t begin, float* run)> sample,
                    size_t keep, bool enough, std::vector<uint32_t>* scratch) {
  scratch->assign(kSampleBins, 0);
  const SamplePlan plan = PlanSample(elements, keep, enough);
  for (size_t run = 0; run < plan.runs; ++run) {
    float values[kSampleRun];
    sample(plan.Begin(run), values);
    for (float value : values) ++(*scratch)[MagnitudeBits(value) >> kSampleShift];
  }
  size_t wanted = plan.wanted;
  return std::max(static_cast<uint32_t>(FindBin(*scratch, &wanted)) << kSampleShift, kLeastNotZero);
}

}  // namespace psgd
