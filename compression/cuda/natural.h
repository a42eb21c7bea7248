// natural on a device, in one pass. A thread encodes the eight elements of one byte of signs. See
// compression/dense/natural.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/cuda/signs.h"
#include "compression/dense/natural_value.h"

namespace psgd::cuda {

struct SendNatural {
  Source source;
  uint32_t elements;
  PhiloxKey key;
  uint64_t step;
  std::byte* exponents;

  PS_HD void operator()(size_t b) const {
    std::byte* signs = exponents + elements;
    const PhiloxBlock random[2] = {Philox(key, 2 * b, step), Philox(key, 2 * b + 1, step)};
    signs[b] = ByteOfBits(b, elements, [&](size_t i) {
      const float corrected = source.Corrected(i);
      const uint8_t exponent = NaturalExponent(corrected, random[i / 4 % 2].word[i % 4]);
      const bool negative = std::signbit(corrected);
      exponents[i] = static_cast<std::byte>(exponent);
      if (source.residual != nullptr) {
        source.residual[i] = corrected - NaturalValue(exponent, negative);
      }
      return negative;
    });
  }
};

template <typename Queue>
class CoderOf<NaturalTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const NaturalTwin&, uint32_t elements) : elements_(elements) {}

  size_t Bound(uint64_t) const override { return elements_ + BitBytes(elements_); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    ForAll(queue, BitBytes(elements_),
           SendNatural{input.source, elements_, input.key, input.step, output.payload});
  }

 private:
  const uint32_t elements_;
};

}  // namespace psgd::cuda
