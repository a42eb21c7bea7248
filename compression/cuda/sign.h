// sign and signum on a device. See compression/dense/sign.h and signum.h.
#pragma once

#include "compression/coarse.h"
#include "compression/cuda/coder.h"
#include "compression/cuda/signs.h"

namespace psgd::cuda {

// part[s] is the sum of magnitudes of stretch s of kSignStretch elements. A team has one stretch.
struct MagnitudesBody {
  using Shared = SplitLanes;
  Source source;
  uint32_t elements;
  double* part;

  PS_HD void operator()(const Block& block, Shared& lanes) const {
    const size_t first = size_t{block.index()} * kTeams;
    block.Each([&](uint32_t thread) {
      const size_t begin = (first + thread / kLanes) * kSignStretch;
      if (begin < elements) SplitLane(source, begin, Count(begin), thread, &lanes);
    });
    block.Each([&](uint32_t thread) {
      const size_t begin = (first + thread) * kSignStretch;
      if (thread >= kTeams || begin >= elements) return;
      const SplitSums sums = FoldSplit(source, begin, Count(begin), lanes, thread);
      part[first + thread] = sums.positive - sums.negative;
    });
  }

 private:
  PS_HD size_t Count(size_t begin) const {
    return elements - begin < kSignStretch ? elements - begin : kSignStretch;
  }
};

struct UseAsMagnitude {
  float* payload;
  uint32_t elements;
  PS_HD void operator()(double sum) const { *payload = CoarseMean(sum, elements); }
};

struct SendSignBits {
  Source source;
  uint32_t elements;
  float* payload;

  PS_HD void operator()(size_t b) const {
    std::byte* bits = reinterpret_cast<std::byte*>(payload + 1);
    bits[b] = SendSigns(source, 0, b, elements, *payload, -*payload);
  }
};

template <typename Queue>
class CoderOf<SignTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const SignTwin&, uint32_t elements) : elements_(elements) {}

  size_t Bound(uint64_t) const override { return sizeof(float) + BitBytes(elements_); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const auto stretches = static_cast<uint32_t>((elements_ + kSignStretch - 1) / kSignStretch);
    double* part = queue.template Scratch<double>(stretches);
    float* payload = reinterpret_cast<float*>(output.payload);
    queue.Launch((stretches + kTeams - 1) / kTeams, MagnitudesBody{input.source, elements_, part});
    queue.Launch(1, FoldBody<KnownCount, UseAsMagnitude>{part, {stretches}, {payload, elements_}});
    ForAll(queue, BitBytes(elements_), SendSignBits{input.source, elements_, payload});
  }

 private:
  const uint32_t elements_;
};

struct SendMomentumSigns {
  Source source;
  uint32_t elements;
  float momentum;
  float* mean;
  uint64_t step;
  std::byte* bits;

  PS_HD void operator()(size_t b) const {
    const float share = 1 - momentum;
    bits[b] = ByteOfBits(b, elements, [&](size_t i) {
      mean[i] = momentum * mean[i] + share * source.Gradient(i);
      return mean[i] == 0 ? (i + step) % 2 == 1 : mean[i] > 0;
    });
  }
};

template <typename Queue>
class CoderOf<SignumTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const SignumTwin& twin, uint32_t elements)
      : momentum_(twin.momentum), elements_(elements) {}

  size_t Bound(uint64_t) const override { return BitBytes(elements_); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    ForAll(queue, BitBytes(elements_),
           SendMomentumSigns{input.source, elements_, momentum_, input.state, input.step,
                             output.payload});
  }

 private:
  const float momentum_;
  const uint32_t elements_;
};

}  // namespace psgd::cuda
