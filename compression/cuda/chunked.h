// chunked on a device. A block of threads chooses the elements of a group of chunks. Then a team of
// threads fits the levels of each chunk. See compression/sparse/chunked.h.
#pragma once

#include "compression/cuda/code_planes.h"
#include "compression/cuda/coder.h"
#include "compression/cuda/rice_codes.h"
#include "compression/cuda/sums.h"
#include "compression/sparse/chunk_levels.h"

namespace psgd::cuda {

// Makes the elements of a group of neighboring chunks, and lists those to send. See ScanState.
struct ListChunksBody {
  static constexpr uint32_t kKept = 4096;  // elements that stay in shared memory
  // With more, a slice of small chunks has few blocks, which work long. With fewer, each block adds
  // up the numbers of many others.
  static constexpr uint32_t kMostChunks = 8;
  static constexpr uint32_t kBins = 2048;
  static_assert(kBins >= kMostBins && kBins * 32 >= kMostChunk);
  struct Shared {
    alignas(sizeof(Four)) float value[kKept];
    uint32_t bins[kBins];  // then the bits of the elements to send
    BlockScan scan;
    uint32_t group, before;
    uint32_t least[kMostChunks];     // bits of the least magnitude to send of each chunk
    uint32_t last_tie[kMostChunks];  // the last element to send of those that equal it
    uint32_t ties;                   // still to choose of a chunk
    uint32_t all_ties;
  };
  Source source;
  uint32_t elements;
  ChunkedTwin options;
  ScanState* state;
  uint32_t* indices;
  uint32_t* found;  // how many there are

  // As many chunks as stay in shared memory, at least one.
  PS_HD static uint32_t ChunksOfGroup(uint32_t chunk) {
    const uint32_t fit = chunk < kKept ? kKept / chunk : 1;
    return fit < kMostChunks ? fit : kMostChunks;
  }

  PS_HD void operator()(const Block& block, Shared& shared) const {
    block.Once([&] {
      shared.group = state->Take();
      shared.before = 0;
    });
    const uint32_t length = ChunksOfGroup(options.chunk) * options.chunk;
    const uint32_t begin = shared.group * length, left = elements - begin;
    const uint32_t count = left < length ? left : length;
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
    for (uint32_t c = 0; c * options.chunk < count; ++c) FindCut(block, begin, count, c, shared);
    block.Bits(
        count, [&](uint32_t i) { return IsSent(begin, i, shared); },
        [&](uint32_t w, uint32_t bits) { shared.bins[w] = bits; });
    const uint32_t words = (count + 31) / 32, each = (words + kThreads - 1) / kThreads;
    block.Each([&](uint32_t thread) {
      uint32_t sent = 0;
      for (uint32_t w = thread * each; w < (thread + 1) * each && w < words; ++w) {
        sent += CountBits(shared.bins[w]);
      }
      shared.scan.value[thread] = sent;
    });
    shared.scan.Exclusive(block);
    block.Once([&] { state->Tell(shared.group, shared.scan.total()); });
    state->AddSumsBefore(block, shared.group, &shared.before);
    block.Each([&](uint32_t thread) {
      uint32_t at = shared.before + shared.scan.value[thread];
      for (uint32_t w = thread * each; w < (thread + 1) * each && w < words; ++w) {
        uint32_t i = begin + w * 32;
        for (uint32_t bits = shared.bins[w]; bits != 0; bits >>= 1, ++i) {
          if ((bits & 1) != 0) indices[at++] = i;
        }
      }
      if (thread == 0 && count == left) *found = shared.before + shared.scan.total();
    });
  }

 private:
  // The magnitude of element i of the group.
  PS_HD uint32_t BitsAt(size_t begin, uint32_t i, const Shared& shared) const {
    return MagnitudeBits(i < kKept ? shared.value[i] : source.Made(begin + i));
  }
  PS_HD bool IsSent(size_t begin, uint32_t i, const Shared& shared) const {
    const uint32_t bits = BitsAt(begin, i, shared), c = i / options.chunk;
    const uint32_t least = shared.least[c];
    return bits != 0 && (bits > least || (bits == least && i <= shared.last_tie[c]));
  }

  // Finds which elements to send of chunk c of a group of `count` elements.
  PS_HD void FindCut(const Block& block, size_t begin, uint32_t count, uint32_t c,
                     Shared& shared) const {
    const uint32_t first = c * options.chunk, left = count - first;
    const uint32_t end = left < options.chunk ? count : first + options.chunk;
    const uint32_t keep = KeptOfChunk(options.keep, options.chunk, end - first);
    block.Once([&] {
      shared.least[c] = 0;
      shared.last_tie[c] = kEveryTie;
    });
    for (uint32_t d = 0; d < kDigits; ++d) {
      const uint32_t shift = DigitAt(d).shift, above = shift + DigitAt(d).width;
      const uint32_t bins = 1u << DigitAt(d).width, wanted = d == 0 ? keep : shared.ties;
      block.ForEach(bins, [&](size_t b) { shared.bins[b] = 0; });
      block.ForEach(end - first, [&](size_t i) {
        const uint32_t bits = BitsAt(begin, first + static_cast<uint32_t>(i), shared);
        if (bits >> above != shared.least[c] >> above) return;
        AtomicAdd(&shared.bins[(bits >> shift) & (bins - 1)], 1);
      });
      FindBin(block, shared.bins, bins, wanted, shared.scan,
              [&](uint32_t bin, uint32_t ties, uint32_t all) {
                shared.least[c] |= bin << shift;
                shared.ties = ties;
                shared.all_ties = all;
              });
    }
    if (shared.ties < shared.all_ties) FindLastTie(block, begin, first, end, c, shared);
  }

  // Each thread counts the ties of neighbors.
  PS_HD void FindLastTie(const Block& block, size_t begin, uint32_t first, uint32_t end, uint32_t c,
                         Shared& shared) const {
    const uint32_t each = (end - first + kThreads - 1) / kThreads, least = shared.least[c];
    block.Each([&](uint32_t thread) {
      const uint32_t from = first + thread * each;
      uint32_t ties = 0;
      for (uint32_t i = from; i < from + each && i < end; ++i) {
        ties += BitsAt(begin, i, shared) == least;
      }
      shared.scan.value[thread] = ties;
    });
    shared.scan.Exclusive(block);
    block.Each([&](uint32_t thread) {
      const uint32_t before = shared.scan.value[thread], wanted = shared.ties;
      if (before >= wanted || shared.scan.Through(thread) < wanted) return;
      uint32_t left = wanted - before, i = first + thread * each;
      while (BitsAt(begin, i, shared) != least || --left > 0) ++i;
      shared.last_tie[c] = i;
    });
  }
};

// Fits the levels of each chunk to its entries, and stores the ranges of the levels. A team of
// threads has a chunk.
struct FitLevelsBody {
  struct Shared {
    LevelSums sums[kTeams][kLanes];
    float low[kTeams][kLanes];
    float high[kTeams][kLanes];
    ChunkRange range[kTeams];
    uint32_t begin[kTeams + 1];  // of the entries of each team's chunk
  };
  Source source;
  Entries entries;
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

// Sends the level codes of the entries, writes the header, and plans the codes of their indices.
struct LevelCodesBody {
  struct Shared {
    uint32_t level_codes[kThreads / 4];  // bytes
    RicePlanner::Shared plan;
  };
  Source source;
  RicePlanner planner;
  uint32_t chunks;
  ChunkedTwin options;
  CoderOutput output;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t count = planner.entries.count();
    uint16_t* const level_codes = reinterpret_cast<uint16_t*>(Ranges() + chunks);
    uint8_t* const bytes = reinterpret_cast<uint8_t*>(shared.level_codes);
    for (uint32_t begin = block.index() * kThreads; begin < count;
         begin += block.count() * kThreads) {
      const uint32_t own = count - begin < kThreads ? count - begin : kThreads;
      block.Each([&](uint32_t thread) {
        const uint32_t code = thread < own ? Send(planner.entries.indices[begin + thread]) : 0;
        bytes[thread] = static_cast<uint8_t>(code);
      });
      PackPlanes(block, shared.level_codes, own, options.bits,
                 level_codes + begin / kCodeGroup * options.bits);
    }
    const size_t level_code_bytes = LevelCodeBytes(count, options.bits);
    const size_t indices_at =
        kChunkedHeaderBytes + size_t{chunks} * kChunkRangeBytes + level_code_bytes;
    block.Once([&] {
      // To fill the word.
      if (block.index() == 0 && level_code_bytes % 4 != 0) level_codes[level_code_bytes / 2] = 0;
    });
    planner.Plan(block, true, indices_at, output, shared.plan, [&](uint32_t low_bits) {
      uint32_t* header = reinterpret_cast<uint32_t*>(output.payload);
      header[0] = count;
      header[1] = low_bits | options.bits << 8 | (options.chunk - 1) << 16;
    });
  }

 private:
  PS_HD uint32_t* Ranges() const {
    return reinterpret_cast<uint32_t*>(output.payload + kChunkedHeaderBytes);
  }

  // Returns the code of an element and leaves the rest in the residual.
  PS_HD uint32_t Send(uint32_t index) const {
    const ChunkLevels levels(RangeFromBits(Ranges()[index / options.chunk]), options.bits);
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
    uint32_t* const indices = queue.template Scratch<uint32_t>(room_);
    uint32_t* const found = queue.template Scratch<uint32_t>(1);
    queue.Zero(found, 1);
    const uint32_t of_group = ListChunksBody::ChunksOfGroup(options_.chunk);
    const uint32_t groups = (chunks_ + of_group - 1) / of_group;
    queue.Launch(groups, ListChunksBody{source, elements_, options_, NewScan(queue, groups),
                                        indices, found});
    const RicePlanner planner = NewPlanner(queue, {indices, found, room_});
    uint32_t* ranges = reinterpret_cast<uint32_t*>(output.payload + kChunkedHeaderBytes);
    queue.Launch(
        (chunks_ + kTeams - 1) / kTeams,
        FitLevelsBody{source, planner.entries, options_.chunk, chunks_, options_.bits, ranges});
    queue.Launch(EntryBlocks(room_), LevelCodesBody{source, planner, chunks_, options_, output});
    LaunchCodes(queue, planner, output.payload);
  }

 private:
  const ChunkedTwin options_;
  const uint32_t elements_;
  const uint32_t chunks_;
  uint32_t room_ = 0;  // most values in a payload
};

}  // namespace psgd::cuda
