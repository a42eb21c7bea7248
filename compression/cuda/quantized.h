// int8 and qsgd on a device, in one pass. A block of threads encodes a block of elements. See
// compression/dense/quantized.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/cuda/sums.h"
#include "compression/dense/quantized.h"

namespace psgd::cuda {

struct QuantizedBody {
  struct Shared {
    uint32_t largest[kThreads];
    double squares[kLanes];
    float unit;
  };
  Source source;
  uint32_t elements;
  QuantizedTwin options;
  PhiloxKey key;
  uint64_t step;
  std::byte* payload;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * options.block;
    const size_t left = elements - begin, count = left < options.block ? left : options.block;
    Measure(block, begin, count, shared);
    const auto top = static_cast<float>(LargestLevel(options.bits));
    block.Once([&] {
      shared.unit = QuantizedUnit(SizeOf(shared), top);
      StoreUnit(block.index(), shared.unit);
    });
    const Quantizer quantizer = {source,      options.stochastic,       key, step,
                                 shared.unit, InverseUnit(shared.unit), top};
    std::byte* codes = payload + CodesAt();
    if (options.packed) {
      block.ForEach((count + kCodeGroup - 1) / kCodeGroup, [&](size_t g) {
        PackGroup(quantizer, begin + g * kCodeGroup, begin + count, codes);
      });
    } else {
      // Each thread has eight elements of a group of 32: those whose random bits one draw gives.
      block.ForEach((count + kRandomGroup - 1) / kRandomGroup * 4, [&](size_t part) {
        const size_t first = begin + part / 4 * kRandomGroup + part % 4 * 4;
        const PhiloxBlock random = quantizer.Draw(first);
        for (size_t k = 0; k < 8; ++k) {
          const size_t i = first + k % 4 + k / 4 * kRandomGroup / 2;
          if (i < begin + count) {
            codes[i] = static_cast<std::byte>(quantizer.Level(i, random.word[k % 4], k >= 4));
          }
        }
      });
    }
  }

 private:
  struct Quantizer {
    Source source;
    bool stochastic;
    PhiloxKey key;
    uint64_t step;
    float unit, inverse, top;

    // Draws the random bits of elements i to i + 3, and of the four elements half a group later.
    PS_HD PhiloxBlock Draw(size_t i) const {
      if (!stochastic) return {};
      return Philox(key, RandomWordOf(static_cast<uint32_t>(i)) / 4, step);
    }
    // Returns the level of element i and leaves the rest in the residual. A NaN unit gives level 0.
    PS_HD int8_t Level(size_t i, uint32_t word, bool high) const {
      if (!(unit == unit)) return 0;
      const float value = source.Made(i);
      const float part = stochastic ? RandomPartOf(word, high) : 0.5f;
      const int8_t level = LevelOf(value, inverse, part, top);
      if (source.residual != nullptr) source.residual[i] = value - unit * static_cast<float>(level);
      return level;
    }
  };

  // Makes the elements and measures their largest magnitude or the sum of their squares.
  PS_HD void Measure(const Block& block, size_t begin, size_t count, Shared& shared) const {
    block.Each([&](uint32_t thread) {
      uint32_t largest = 0;
      for (size_t i = thread; i < count; i += kThreads) {
        largest = Larger(largest, MagnitudeBits(source.Make(begin + i)));
      }
      shared.largest[thread] = largest;
    });
    if (!options.l2) return;
    block.Each([&](uint32_t thread) {
      if (thread >= kLanes) return;
      double squares = 0;
      for (size_t i = thread; i < count; i += kLanes) {
        const double value = source.Made(begin + i);
        squares += value * value;
      }
      shared.squares[thread] = squares;
    });
  }

  PS_HD double SizeOf(const Shared& shared) const {
    if (options.l2) {
      double squares = 0;
      for (double lane : shared.squares) squares += lane;
      return std::sqrt(squares);
    }
    uint32_t largest = 0;
    for (uint32_t bits : shared.largest) largest = Larger(largest, bits);
    return std::bit_cast<float>(largest);
  }

  PS_HD size_t HeaderWords() const { return options.packed ? 2 : 1; }
  PS_HD size_t CodesAt() const {
    const size_t blocks = (elements + size_t{options.block} - 1) / options.block;
    return HeaderWords() * sizeof(uint32_t) + blocks * sizeof(uint16_t);
  }
  PS_HD void StoreUnit(uint32_t index, float unit) const {
    uint32_t* words = reinterpret_cast<uint32_t*>(payload);
    if (index == 0) {
      words[0] = options.block;
      if (options.packed) words[1] = options.bits;
    }
    if (elements > 0) reinterpret_cast<uint16_t*>(words + HeaderWords())[index] = CoarseBits(unit);
  }

  // Packs the bit planes of the group that begins at element `first`.
  PS_HD void PackGroup(const Quantizer& quantizer, size_t first, size_t end,
                       std::byte* codes) const {
    const bool spoilt = !(quantizer.unit == quantizer.unit);
    uint8_t code[kCodeGroup];
    PhiloxBlock random = {};
    for (size_t k = 0; k < kCodeGroup; ++k) {
      const size_t i = first + k;
      if (k % 4 == 0) random = quantizer.Draw(i);
      const int8_t level = i < end ? quantizer.Level(i, random.word[k % 4], IsHighPart(i)) : 0;
      code[k] = i < end && !spoilt ? static_cast<uint8_t>(level + LargestLevel(options.bits))
                                   : uint8_t{0};
    }
    uint16_t* out = reinterpret_cast<uint16_t*>(codes) + first / kCodeGroup * options.bits;
    for (uint32_t plane = 0; plane < options.bits; ++plane) {
      unsigned word = 0;
      for (unsigned k = 0; k < kCodeGroup; ++k) word |= ((code[k] >> plane) & 1u) << k;
      out[plane] = static_cast<uint16_t>(word);
    }
  }
};

template <typename Queue>
class CoderOf<QuantizedTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const QuantizedTwin& options, uint32_t elements)
      : options_(options),
        elements_(elements),
        blocks_((elements + options.block - 1) / options.block) {}

  size_t Bound(uint64_t) const override {
    const size_t groups = (elements_ + kCodeGroup - 1) / kCodeGroup;
    const size_t codes = options_.packed ? groups * 2 * options_.bits : elements_;
    return (options_.packed ? 8 : 4) + blocks_ * sizeof(uint16_t) + codes;
  }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    queue.Launch(blocks_ == 0 ? 1 : blocks_, QuantizedBody{input.source, elements_, options_,
                                                           input.key, input.step, output.payload});
  }

 private:
  const QuantizedTwin options_;
  const uint32_t elements_;
  const uint32_t blocks_;
};

}  // namespace psgd::cuda
