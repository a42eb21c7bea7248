// chunked on a device. A block of threads chooses the elements of a chunk, a team of threads fits
// its levels. See compression/sparse/chunked.h.
#pragma once

#include "compression/cuda/code_planes.h"
#include "compression/cuda/coder.h"
#include "compression/cuda/rice_codes.h"
#include "compression/cuda/scan.h"
#include "compression/cuda/sums.h"
#include "compression/sparse/chunk_levels.h"

namespace psgd::cuda {

// Makes the elements of a chunk and finds which to send: cuts[c] has least and last_tie.
struct ChunkCutBody {
  static constexpr uint32_t kBins = 2048;
  static constexpr uint32_t kKept = 4096;  // elements of a chunk that stay in shared memory
  struct Shared {
    alignas(sizeof(Four)) float value[kKept];
    uint32_t bins[kBins];
    FindBinBody<UseAsDigit>::Shared find;
    BlockReach reach;
    Chosen chosen;
  };
  Source source;
  uint32_t elements;
  ChunkedTwin options;
  Chosen* cuts;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * options.chunk, left = elements - begin;
    const auto count = static_cast<uint32_t>(left < options.chunk ? left : options.chunk);
    block.Each([&](uint32_t thread) {
      for (size_t from = begin; from < begin + count; from += kKept) {
        ForRuns<kKept>(source, from, begin + count, thread,
                       [&](size_t i, const Four& values, auto own) {
                         if (source.residual != nullptr)
                           StoreFour(source.residual + i, values, own);
                         if (from == begin) StoreShared(shared.value + (i - begin), values, own);
                       });
      }
    });
    block.Once([&] {
      shared.chosen.settled = 0;
      shared.chosen.least = 0;
      shared.chosen.last_tie = kEveryTie;
      shared.chosen.ties = KeptOfChunk(options.keep, options.chunk, count);
    });
    for (uint32_t d = 0; d < kDigits; ++d) FindDigit(block, begin, count, DigitAt(d), shared);
    if (shared.chosen.settled == 0) FindLastTie(block, begin, count, shared);
    block.Once([&] { cuts[block.index()] = shared.chosen; });
  }

 private:
  // The magnitude of element i of a chunk.
  PS_HD uint32_t BitsAt(size_t begin, uint32_t i, const Shared& shared) const {
    return MagnitudeBits(i < kKept ? shared.value[i] : source.Made(begin + i));
  }

  PS_HD void FindDigit(const Block& block, size_t begin, uint32_t count, const Digit& digit,
                       Shared& shared) const {
    const uint32_t shift = digit.shift, above = shift + digit.width, bins = 1u << digit.width;
    block.ForEach(bins, [&](size_t b) { shared.bins[b] = 0; });
    block.ForEach(count, [&](size_t i) {
      const uint32_t bits = BitsAt(begin, static_cast<uint32_t>(i), shared);
      if (bits >> above != shared.chosen.least >> above) return;
      AtomicAdd(&shared.bins[(bits >> shift) & (bins - 1)], 1);
    });
    FindBinBody<UseAsDigit>{shared.bins, bins, {&shared.chosen, shift}}(block, shared.find);
  }

  // Each thread counts the ties of neighbors.
  PS_HD void FindLastTie(const Block& block, size_t begin, uint32_t count, Shared& shared) const {
    const uint32_t each = (count + kThreads - 1) / kThreads;
    shared.reach.Find(block, kThreads, shared.chosen.ties, [&](uint32_t part) {
      uint32_t ties = 0;
      for (uint32_t i = part * each; i < (part + 1) * each && i < count; ++i) {
        ties += BitsAt(begin, i, shared) == shared.chosen.least;
      }
      return ties;
    });
    block.Once([&] {
      uint32_t left = shared.reach.left;
      uint32_t i = shared.reach.found * each;
      while (BitsAt(begin, i, shared) != shared.chosen.least || --left > 0) ++i;
      shared.chosen.last_tie = static_cast<uint32_t>(begin) + i;
    });
  }
};

// See ForTerms.
struct ChunkFlag {
  Source source;
  uint32_t chunk;
  const Chosen* cuts;
  PS_HD Source Out() const { return source.AsMade(); }
  PS_HD const ChunkFlag& Begin() const { return *this; }
  PS_HD bool operator()(uint32_t i, float made) const {
    const uint32_t bits = MagnitudeBits(made);
    const Chosen& cut = cuts[i / chunk];
    const uint32_t least = cut.least, last_tie = cut.last_tie;
    return bits != 0 && (bits > least || (bits == least && i <= last_tie));
  }
};

struct FitLevelsBody {
  struct Shared {
    LevelSums sums[kTeams][kLanes];
    float low[kTeams][kLanes];
    float high[kTeams][kLanes];
    ChunkRange range[kTeams];
    uint32_t begin[kTeams + 1];  // of the entries of each team's chunk
  };
  Source source;
  EntriesView entries;
  uint32_t chunk;
  uint32_t chunks;
  uint32_t bits;
  uint32_t* ranges;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t first = block.index() * kTeams;
    block.Each([&](uint32_t thread) {
      if (thread <= kTeams) shared.begin[thread] = FirstEntryOf(first + thread);
    });
    block.Each([&](uint32_t thread) { FindEnds(thread, shared); });
    block.Each([&](uint32_t thread) {
      if (thread < kTeams) shared.range[thread] = FoldEnds(thread, shared);
    });
    for (int fit = 0; fit < kLevelFits; ++fit) {
      block.Each([&](uint32_t thread) { SumLane(thread, shared); });
      block.Each([&](uint32_t thread) {
        if (thread < kTeams && Count(shared, thread) > 0) FoldSums(thread, shared);
      });
    }
    block.Each([&](uint32_t thread) {
      if (thread >= kTeams || first + thread >= chunks) return;
      const ChunkRange range = shared.range[thread];
      ranges[first + thread] = RangeBits({RoundCoarse(range.low), RoundCoarse(range.high)});
    });
  }

 private:
  PS_HD static uint32_t Count(const Shared& shared, uint32_t team) {
    return shared.begin[team + 1] - shared.begin[team];
  }
  PS_HD float MagnitudeOf(uint32_t entry) const {
    return std::fabs(source.Made(entries.indices[entry]));
  }

  // Returns the first entry that is not in an earlier chunk.
  PS_HD uint32_t FirstEntryOf(uint32_t c) const {
    uint32_t low = 0, high = entries.count();
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (entries.indices[middle] < uint64_t{c} * chunk) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  PS_HD void FindEnds(uint32_t thread, Shared& shared) const {
    const uint32_t team = thread / kLanes, lane = thread % kLanes;
    float low = std::numeric_limits<float>::max(), high = 0;
    for (uint32_t i = shared.begin[team] + lane; i < shared.begin[team + 1]; i += kLanes) {
      const float magnitude = MagnitudeOf(i);
      if (magnitude < low) low = magnitude;
      if (magnitude > high) high = magnitude;
    }
    shared.low[team][lane] = low;
    shared.high[team][lane] = high;
  }

  PS_HD static ChunkRange FoldEnds(uint32_t team, const Shared& shared) {
    if (Count(shared, team) == 0) return {};
    ChunkRange range = {shared.low[team][0], shared.high[team][0]};
    for (uint32_t lane = 1; lane < kLanes; ++lane) {
      if (shared.low[team][lane] < range.low) range.low = shared.low[team][lane];
      if (shared.high[team][lane] > range.high) range.high = shared.high[team][lane];
    }
    return range;
  }

  PS_HD void SumLane(uint32_t thread, Shared& shared) const {
    const uint32_t team = thread / kLanes, lane = thread % kLanes;
    const ChunkLevels levels(shared.range[team], bits);
    LevelSums sums;
    for (uint32_t i = shared.begin[team] + lane; i < shared.begin[team + 1]; i += kLanes) {
      const float magnitude = MagnitudeOf(i);
      sums.Add(levels.Nearest(magnitude), magnitude);
    }
    shared.sums[team][lane] = sums;
  }

  PS_HD void FoldSums(uint32_t team, Shared& shared) const {
    LevelSums sums;
    for (const LevelSums& lane : shared.sums[team]) sums.Add(lane);
    shared.range[team] = FitLevels(sums, Count(shared, team), bits);
  }
};

struct ChunkedPlanBody {
  using Shared = Nothing;
  EntriesView entries;
  uint32_t chunks;
  ChunkedTwin options;
  RicePlan* plan;
  CoderOutput output;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.Once([&] {
      const uint32_t count = entries.count();
      plan->coded = 1;
      plan->codes_at =
          static_cast<uint32_t>(kChunkedHeaderBytes + size_t{chunks} * kChunkRangeBytes +
                                LevelCodeBytes(count, options.bits));
      const uint64_t rice = ChooseLowBits(entries, plan);
      uint32_t* header = reinterpret_cast<uint32_t*>(output.payload);
      header[0] = count;
      header[1] = plan->low_bits | options.bits << 8 | (options.chunk - 1) << 16;
      *output.bytes = plan->codes_at + (rice + 7) / 8;
    });
  }
};

// Sends the codes of the entries.
struct LevelCodesBody {
  struct Shared {
    uint32_t codes[kThreads / 4];  // bytes
  };
  Source source;
  EntriesView entries;
  ChunkedTwin options;
  const uint32_t* ranges;
  uint16_t* codes;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t count = entries.count();
    uint8_t* const bytes = reinterpret_cast<uint8_t*>(shared.codes);
    for (uint32_t begin = block.index() * kThreads; begin < count;
         begin += block.count() * kThreads) {
      const uint32_t own = count - begin < kThreads ? count - begin : kThreads;
      block.Each([&](uint32_t thread) {
        const uint32_t code = thread < own ? Send(entries.indices[begin + thread]) : 0;
        bytes[thread] = static_cast<uint8_t>(code);
      });
      PackPlanes(block, shared.codes, own, options.bits, codes + begin / kCodeGroup * options.bits);
    }
  }

 private:
  // Returns the code of an element and leaves the rest in the residual.
  PS_HD uint32_t Send(uint32_t index) const {
    const ChunkLevels levels(RangeFromBits(ranges[index / options.chunk]), options.bits);
    const float value = source.Made(index);
    const uint32_t code = LevelCode(levels, options.bits, value);
    if (source.residual != nullptr) {
      source.residual[index] = value - LevelValue(levels, options.bits, code);
    }
    return code;
  }
};

template <typename Queue>
class CoderOf<ChunkedTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const ChunkedTwin& options, uint32_t elements)
      : options_(options),
        elements_(elements),
        chunks_(static_cast<uint32_t>(ChunksOf(elements, options.chunk))) {
    const uint32_t rest = elements % options.chunk;
    room_ = elements / options.chunk * options.keep;
    if (rest > 0) room_ += KeptOfChunk(options.keep, options.chunk, rest);
  }

  size_t Bound(uint64_t) const override {
    return kChunkedHeaderBytes + chunks_ * kChunkRangeBytes + LevelCodeBytes(room_, options_.bits) +
           RiceBound(room_, elements_);
  }
  bool varies() const override { return true; }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const Source& source = input.source;
    Chosen* cuts = queue.template Scratch<Chosen>(chunks_);
    queue.Launch(chunks_, ChunkCutBody{source, elements_, options_, cuts});
    uint32_t* indices = queue.template Scratch<uint32_t>(room_);
    Chosen* chosen = queue.template Scratch<Chosen>(1);
    queue.Zero(chosen, 1);
    Select(queue, elements_, ChunkFlag{source, options_.chunk, cuts}, indices, &chosen->count);
    const EntriesView entries = {indices, chosen};
    queue.Zero(reinterpret_cast<uint32_t*>(output.payload), (Bound(0) + 3) / 4);
    RicePlan* plan = MeasureGaps(queue, entries, room_);
    queue.Launch(1, ChunkedPlanBody{entries, chunks_, options_, plan, output});
    uint32_t* ranges = reinterpret_cast<uint32_t*>(output.payload + kChunkedHeaderBytes);
    queue.Launch((chunks_ + kTeams - 1) / kTeams,
                 FitLevelsBody{source, entries, options_.chunk, chunks_, options_.bits, ranges});
    queue.Launch(BlocksFor(room_), LevelCodesBody{source, entries, options_, ranges,
                                                  reinterpret_cast<uint16_t*>(ranges + chunks_)});
    LaunchCodes(queue, entries, room_, plan, output.payload);
  }

 private:
  const ChunkedTwin options_;
  const uint32_t elements_;
  const uint32_t chunks_;
  uint32_t room_ = 0;  // most values in a payload
};

}  // namespace psgd::cuda
