// int8 and qsgd on a device, in one pass. A team of threads encodes a block of elements. See
// compression/dense/quantized.h.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/cuda/sums.h"
#include "compression/dense/quantized.h"

namespace psgd::cuda {

struct QuantizedBody {
  struct Shared {
    uint32_t largest[kThreads];
    double squares[kTeams][kLanes];
    float unit[kTeams];
  };
  Source source;
  uint32_t elements;
  QuantizedTwin options;
  uint32_t blocks;        // blocks of elements, not of threads
  uint32_t team_threads;  // see TeamThreads
  PhiloxKey key;
  uint64_t step;
  std::byte* payload;

  // A team measures about 16 elements a thread.
  static uint32_t TeamThreads(uint32_t block) {
    uint32_t threads = kLanes;
    while (threads < kThreads && threads * 16 < block) threads *= 2;
    return threads;
  }

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t teams = kThreads / team_threads, first = block.index() * teams;
    const auto top = static_cast<float>(LargestLevel(options.bits));
    block.Each([&](uint32_t thread) {
      const uint32_t b = first + thread / team_threads;
      if (b < blocks) Measure(b, thread, shared);
    });
    block.Each([&](uint32_t thread) {
      const uint32_t b = first + thread / team_threads;
      if (options.l2 && b < blocks) SumSquares(b, thread, shared);
    });
    block.Each([&](uint32_t thread) {
      // A slice without elements has a header.
      if (thread >= teams || (first + thread >= blocks && first + thread > 0)) return;
      shared.unit[thread] = blocks == 0 ? 0 : QuantizedUnit(SizeOf(thread, shared), top);
      StoreUnit(first + thread, shared.unit[thread]);
    });
    block.Each([&](uint32_t thread) {
      const uint32_t team = thread / team_threads, b = first + team;
      if (b >= blocks) return;
      const float unit = shared.unit[team];
      Send(b, thread % team_threads,
           {source, options.stochastic, key, step, unit, InverseUnit(unit), top});
    });
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

  PS_HD size_t Begin(uint32_t b) const { return size_t{b} * options.block; }
  PS_HD size_t Count(uint32_t b) const {
    const size_t left = elements - Begin(b);
    return left < options.block ? left : options.block;
  }

  // Makes elements of a block and measures their largest magnitude.
  PS_HD void Measure(uint32_t b, uint32_t thread, Shared& shared) const {
    const size_t begin = Begin(b), count = Count(b);
    uint32_t largest = 0;
    for (size_t i = thread % team_threads; i < count; i += team_threads) {
      largest = Larger(largest, MagnitudeBits(source.Make(begin + i)));
    }
    shared.largest[thread] = largest;
  }
  PS_HD void SumSquares(uint32_t b, uint32_t thread, Shared& shared) const {
    const uint32_t lane = thread % team_threads;
    if (lane >= kLanes) return;
    const size_t begin = Begin(b), count = Count(b);
    double squares = 0;
    for (size_t i = lane; i < count; i += kLanes) {
      const double value = source.Made(begin + i);
      squares += value * value;
    }
    shared.squares[thread / team_threads][lane] = squares;
  }

  PS_HD double SizeOf(uint32_t team, const Shared& shared) const {
    if (options.l2) {
      double squares = 0;
      for (double lane : shared.squares[team]) squares += lane;
      return std::sqrt(squares);
    }
    uint32_t largest = 0;
    for (uint32_t i = 0; i < team_threads; ++i) {
      largest = Larger(largest, shared.largest[team * team_threads + i]);
    }
    return std::bit_cast<float>(largest);
  }

  // Sends a thread's elements of a block.
  PS_HD void Send(uint32_t b, uint32_t lane, const Quantizer& quantizer) const {
    const size_t begin = Begin(b), end = begin + Count(b);
    std::byte* codes = payload + CodesAt();
    if (options.packed) {
      for (size_t i = begin + lane * kCodeGroup; i < end; i += team_threads * kCodeGroup) {
        PackGroup(quantizer, i, end, codes);
      }
      return;
    }
    // Each thread has eight elements of a group of 32: those whose random bits one draw gives.
    const size_t parts = (end - begin + kRandomGroup - 1) / kRandomGroup * 4;
    for (size_t part = lane; part < parts; part += team_threads) {
      const size_t from = begin + part / 4 * kRandomGroup + part % 4 * 4;
      const PhiloxBlock random = quantizer.Draw(from);
      for (size_t k = 0; k < 8; ++k) {
        const size_t i = from + k % 4 + k / 4 * kRandomGroup / 2;
        if (i >= end) continue;
        codes[i] = static_cast<std::byte>(quantizer.Level(i, random.word[k % 4], k >= 4));
      }
    }
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
    const uint32_t threads = QuantizedBody::TeamThreads(options_.block);
    const uint32_t teams = kThreads / threads;
    queue.Launch(blocks_ == 0 ? 1 : (blocks_ + teams - 1) / teams,
                 QuantizedBody{input.source, elements_, options_, blocks_, threads, input.key,
                               input.step, output.payload});
  }

 private:
  const QuantizedTwin options_;
  const uint32_t elements_;
  const uint32_t blocks_;
};

}  // namespace psgd::cuda
