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

struct SquareOfMade {
  Source source;
  PS_HD float Make(size_t i) const { return source.Make(i); }
  PS_HD static double Of(float value) { return static_cast<double>(value) * value; }
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

// A block of threads has one stretch: part[stretch] is the sum of its drawn magnitudes.
struct DrawBody {
  static constexpr uint32_t kGroups = kSumStretch / kTernaryGroup;
  static_assert(kGroups * kTernaryGroup == kSumStretch && kGroups == kTeams);
  struct Shared {
    uint8_t digit[kSumStretch];
    uint32_t drawn;
    float group[kGroups][kLanes];
    double lane[kLanes];
  };
  Source source;
  uint32_t elements;
  PhiloxKey key;
  uint64_t step;
  TernaryFit* fit;
  double* part;
  std::byte* digits;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * kSumStretch;
    const size_t own = elements - begin < kSumStretch ? elements - begin : kSumStretch;
    block.Once([&] { shared.drawn = 0; });
    block.Each([&](uint32_t thread) { Draw(thread, begin, own, &shared); });
    block.ForEach(kGroups * kTernaryBytes,
                  [&](size_t b) { Pack(b, own, shared.digit, digits + begin / kTernaryDigits); });
    block.Each([&](uint32_t thread) {
      const uint32_t lane = thread % kLanes, group = thread / kLanes;
      float sum = 0;  // short sums in fp32 are cheap; the long one is in double
      for (size_t i = lane; i < kTernaryGroup; i += kLanes) {
        const size_t element = group * kTernaryGroup + i;
        if (shared.digit[element] != 1) sum += std::fabs(source.Made(begin + element));
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
      part[block.index()] = sum;
      AtomicAdd(&fit->drawn, shared.drawn);
    });
  }

 private:
  PS_HD void Draw(uint32_t thread, size_t begin, size_t own, Shared* shared) const {
    uint8_t* const digit = shared->digit;
    const float unit = fit->limit * kDrawUnit;
    uint32_t drawn = 0;
    for (size_t i = size_t{thread} * 4; i < kSumStretch; i += size_t{kThreads} * 4) {
      const PhiloxBlock random = Philox(key, (begin + i) / 4, step);
      for (size_t k = 0; k < 4; ++k) {
        digit[i + k] = 1;
        if (i + k >= own) continue;
        const float value = source.Made(begin + i + k);
        if (!IsDrawn(random.word[k], unit, std::fabs(value))) continue;
        digit[i + k] = value < 0 ? 0 : 2;
        ++drawn;
      }
    }
    AtomicAdd(&shared->drawn, drawn);
  }

  // Packs byte `b` of the stretch, if the stretch has that many.
  PS_HD static void Pack(size_t b, size_t own, const uint8_t* digit, std::byte* out) {
    const size_t first = b / kTernaryBytes * kTernaryGroup, at = b % kTernaryBytes;
    if (first >= own) return;
    const size_t count = own - first < kTernaryGroup ? own - first : kTernaryGroup;
    const size_t bytes = TernaryBytes(count);
    if (at >= bytes) return;
    unsigned packed = 0;
    for (size_t t = kTernaryDigits; t-- > 0;) packed = packed * 3 + digit[first + at + bytes * t];
    out[b] = static_cast<std::byte>(packed);
  }
};

struct KeepUndrawn {
  uint32_t elements;
  const TernaryFit* fit;
  const std::byte* digits;
  float* residual;

  PS_HD void operator()(size_t i) const {
    const float value = fit->value;
    const size_t group = i / kTernaryGroup, first = group * kTernaryGroup, e = i - first;
    const size_t count = elements - first < kTernaryGroup ? elements - first : kTernaryGroup;
    const size_t bytes = TernaryBytes(count);
    unsigned rest = static_cast<unsigned>(digits[group * kTernaryBytes + e % bytes]);
    for (size_t t = 0; t < e / bytes; ++t) rest /= 3;
    residual[i] += -value * static_cast<float>(static_cast<int>(rest % 3) - 1);
  }
};

template <typename Queue>
class CoderOf<TernaryTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const TernaryTwin& twin, uint32_t elements) : clip_(twin.clip), elements_(elements) {}

  size_t Bound(uint64_t) const override { return sizeof(float) + TernaryDigitBytes(elements_); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const uint32_t stretches = StretchesOf(elements_);
    TernaryFit* fit = queue.template Scratch<TernaryFit>(1);
    double* part = queue.template Scratch<double>(stretches);
    queue.Zero(fit, 1);
    const Source& source = input.source;
    queue.Launch(stretches, StretchSumBody<KnownCount, SquareOfMade>{
                                {elements_}, {source}, part, &fit->largest});
    queue.Launch(1, FoldBody<KnownCount, UseAsLimit>{part, {stretches}, {fit, clip_, elements_}});
    std::byte* digits = output.payload + sizeof(float);
    queue.Launch(stretches, DrawBody{source, elements_, input.key, input.step, fit, part, digits});
    const bool fitted = source.residual != nullptr;
    queue.Launch(
        1, FoldBody<KnownCount, UseAsValue>{part, {stretches}, {fit, fitted, output.payload}});
    if (!fitted) return;
    ForAll(queue, elements_, KeepUndrawn{elements_, fit, digits, source.residual});
  }

 private:
  const double clip_;
  const uint32_t elements_;
};

}  // namespace psgd::cuda
