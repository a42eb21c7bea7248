// ternary on a device: one pass measures, one draws, one updates the residual. See
// compression/dense/ternary.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/cuda/sums.h"
#include "compression/dense/ternary_value.h"

namespace psgd::cuda {

// What the passes hand to each other.
struct TernaryFit {
  uint32_t largest;  // bits of the largest magnitude
  uint32_t drawn;    // elements drawn
  float limit;
  float value;  // of a drawn element
};

struct UseAsLimit {
  TernaryFit* fit;
  double clip;
  uint32_t elements;
  PS_HD void operator()(double squares) const {
    fit->limit = TernaryLimit({std::bit_cast<float>(fit->largest), squares}, clip, elements);
  }
};

struct UseAsValue {
  TernaryFit* fit;
  bool fitted;
  std::byte* payload;
  PS_HD void operator()(double drawn) const {
    fit->value = fitted ? FittedTernary({drawn, fit->drawn}, fit->limit) : fit->limit;
    *reinterpret_cast<float*>(payload) = fit->value;
  }
};

// Sums the magnitudes of drawn elements. A block of threads has one stretch.
template <typename Use>
struct DrawBody {
  static constexpr uint32_t kGroups = kSumStretch / kTernaryGroup;
  static_assert(kGroups * kTernaryGroup == kSumStretch && kGroups == kTeams);
  struct Shared {
    alignas(sizeof(Four)) float value[kSumStretch];
    uint8_t digit[kSumStretch];
    uint32_t drawn;
    float group[kGroups][kLanes];
    double lane[kLanes];
    typename PartSums<Use>::Shared fold;
  };
  Source source;
  uint32_t elements;
  PhiloxKey key;
  uint64_t step;
  TernaryFit* fit;
  std::byte* digits;
  PartSums<Use> sums;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * kSumStretch;
    const uint32_t own = StretchLength(begin, elements);
    block.Once([&] { shared.drawn = 0; });
    block.Each([&](uint32_t thread) { Draw(thread, begin, shared); });
    block.ForEach(kGroups * kTernaryBytes,
                  [&](size_t b) { Pack(b, own, shared.digit, digits + begin / kTernaryDigits); });
    block.Each([&](uint32_t thread) {
      const uint32_t lane = thread % kLanes, group = thread / kLanes;
      float sum = 0;  // short sums in fp32 are cheap; the long one is in double
      for (uint32_t i = lane; i < kTernaryGroup; i += kLanes) {
        const uint32_t element = group * kTernaryGroup + i;
        if (element < own && shared.digit[element] != 1) sum += std::fabs(shared.value[element]);
      }
      shared.group[group][lane] = sum;
    });
    block.Each([&](uint32_t thread) {
      if (thread >= kLanes) return;
      double sum = 0;
      for (uint32_t group = 0; group < kGroups; ++group) sum += shared.group[group][thread];
      shared.lane[thread] = sum;
    });
    block.Once([&] {
      double sum = 0;
      for (size_t lane = 0; lane < kLanes; ++lane) sum += shared.lane[lane];
      sums.part[block.index()] = sum;
      AtomicAdd(&fit->drawn, shared.drawn);
    });
    sums.Fold(block, block.count(), shared.fold);
  }

 private:
  PS_HD void Draw(uint32_t thread, size_t begin, Shared& shared) const {
    const float unit = fit->limit * kDrawUnit;
    uint32_t drawn = 0;
    ForRuns<kSumStretch>(source.AsMade(), begin, elements, thread,
                         [&](size_t i, const Four& values, auto own) {
                           const PhiloxBlock random = Philox(key, i / 4, step);
                           StoreShared(shared.value + (i - begin), values, own);
                           uint32_t found = 0x01010101u;
                           for (uint32_t k = 0; k < own; ++k) {
                             if (!IsDrawn(random.word[k], unit, std::fabs(values.at[k]))) continue;
                             found += values.at[k] < 0 ? -(1u << (8 * k)) : 1u << (8 * k);
                             ++drawn;
                           }
                           *reinterpret_cast<uint32_t*>(shared.digit + (i - begin)) = found;
                         });
    if (drawn > 0) AtomicAdd(&shared.drawn, drawn);
  }

  // Packs byte `b` of the stretch, if the stretch has that many.
  PS_HD static void Pack(size_t b, uint32_t own, const uint8_t* digit, std::byte* out) {
    const size_t first = b / kTernaryBytes * kTernaryGroup, at = b % kTernaryBytes;
    if (first >= own) return;
    const size_t count = own - first < kTernaryGroup ? own - first : kTernaryGroup;
    const size_t bytes = TernaryBytes(count);
    if (at >= bytes) return;
    unsigned packed = 0;
    for (size_t t = kTernaryDigits; t-- > 0;) {
      const size_t e = at + bytes * t;
      packed = packed * 3 + (e < count ? digit[first + e] : 1);
    }
    out[b] = static_cast<std::byte>(packed);
  }
};

struct KeepUndrawn {
  uint32_t elements;
  const TernaryFit* fit;
  const std::byte* digits;
  float* residual;
  template <typename Count>
  PS_HD void operator()(size_t i, const Four& values, Count count) const {
    const float value = fit->value;
    const auto first = static_cast<uint32_t>(i / kTernaryGroup * kTernaryGroup);
    const auto at = static_cast<uint32_t>(i) - first;
    const uint32_t rest = elements - first;
    const auto bytes =
        static_cast<uint32_t>(rest < kTernaryGroup ? TernaryBytes(rest) : kTernaryBytes);
    const std::byte* const packed = digits + first / kTernaryDigits;
    Four left;
    for (uint32_t k = 0; k < 4; ++k) {
      if (k >= count) break;
      const uint32_t e = at + k;
      auto digit = static_cast<unsigned>(packed[e % bytes]);
      for (uint32_t t = 0; t < e / bytes; ++t) digit /= 3;
      left.at[k] = values.at[k] + -value * static_cast<float>(static_cast<int>(digit % 3) - 1);
    }
    StoreFour(residual + i, left, count);
  }
};

template <typename Queue>
class CoderOf<TernaryTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const TernaryTwin& twin, uint32_t elements) : clip_(twin.clip), elements_(elements) {}

  size_t Bound(uint64_t) const override { return sizeof(float) + TernaryDigitBytes(elements_); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    TernaryFit* fit = queue.template Scratch<TernaryFit>(1);
    queue.Zero(fit, 1);
    const Source& source = input.source;
    SumSquares(queue, source, elements_, source.residual, &fit->largest,
               UseAsLimit{fit, clip_, elements_});
    std::byte* digits = output.payload + sizeof(float);
    const bool fitted = source.residual != nullptr;
    const uint32_t stretches = StretchesOf(elements_);
    queue.Launch(
        stretches,
        DrawBody<UseAsValue>{source, elements_, input.key, input.step, fit, digits,
                             NewSums(queue, stretches, UseAsValue{fit, fitted, output.payload})});
    if (!fitted) return;
    Map(queue, source.AsMade(), elements_, KeepUndrawn{elements_, fit, digits, source.residual});
  }

 private:
  const double clip_;
  const uint32_t elements_;
};

}  // namespace psgd::cuda
