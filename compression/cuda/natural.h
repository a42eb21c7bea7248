// natural on a device, in one pass. See compression/dense/natural.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/cuda/signs.h"
#include "compression/dense/natural_value.h"

namespace psgd::cuda {

struct SendNatural {
  struct Shared {
    alignas(sizeof(Four)) float tile[kTile];
  };
  Source source;
  uint32_t elements;
  PhiloxKey key;
  uint64_t step;
  std::byte* exponents;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * kTile;
    block.Each([&](uint32_t thread) {
      ForRuns<kTile>(source, begin, elements, thread,
                     [&](size_t i, const Four& values, auto count) {
                       StoreShared(shared.tile + (i - begin), values, count);
                       Send(i, values, count);
                     });
    });
    std::byte* const signs = exponents + elements + begin / 8;
    const uint32_t count = TileLength(begin, elements);
    block.Bits(
        count, [&](uint32_t i) { return std::signbit(shared.tile[i]); },
        [&](uint32_t w, uint32_t bits) {
          const size_t left = BitBytes(count) - w * 4;
          StoreBytes(signs + w * 4, bits, left < 4 ? static_cast<uint32_t>(left) : 4);
        });
  }

 private:
  template <typename Count>
  PS_HD void Send(size_t i, const Four& values, Count count) const {
    const PhiloxBlock random = Philox(key, i / 4, step);
    uint32_t sent = 0;
    Four left;
    for (uint32_t k = 0; k < 4; ++k) {
      const uint8_t exponent = NaturalExponent(values.at[k], random.word[k]);
      sent |= uint32_t{exponent} << (8 * k);
      left.at[k] = values.at[k] - NaturalValue(exponent, std::signbit(values.at[k]));
    }
    StoreBytes(exponents + i, sent, count);
    if (source.residual != nullptr) StoreFour(source.residual + i, left, count);
  }
};

template <typename Queue>
class CoderOf<NaturalTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const NaturalTwin&, uint32_t elements) : elements_(elements) {}

  size_t Bound(uint64_t) const override { return elements_ + BitBytes(elements_); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    queue.Launch(TilesOf(elements_),
                 SendNatural{input.source, elements_, input.key, input.step, output.payload});
  }

 private:
  const uint32_t elements_;
};

}  // namespace psgd::cuda
