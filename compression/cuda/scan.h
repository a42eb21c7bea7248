// A launch that lists numbers, and parts of launches that need running sums of whole numbers.
#pragma once

#include "compression/cuda/coder.h"

namespace psgd::cuda {

inline constexpr uint32_t kScanChunk = 4096;  // terms

// One number of each thread of a block, and the sum of those before it.
class BlockScan {
 public:
  uint32_t value[kThreads];

  // Makes value[t] the sum of the values of the threads before t. REQUIRES: all are set.
  PS_HD void Exclusive(const Block& block) {
    block.Each([&](uint32_t thread) {
      if (thread >= kGroups) return;
      uint32_t sum = 0;
      for (uint32_t k = 0; k < kGroup; ++k) sum += value[thread * kGroup + k];
      group_[thread] = sum;
    });
    block.Once([&] {
      uint32_t sum = 0;
      for (uint32_t g = 0; g < kGroups; ++g) {
        const uint32_t own = group_[g];
        group_[g] = sum;
        sum += own;
      }
      total_ = sum;
    });
    block.Each([&](uint32_t thread) {
      if (thread >= kGroups) return;
      uint32_t sum = group_[thread];
      for (uint32_t k = 0; k < kGroup; ++k) {
        const uint32_t own = value[thread * kGroup + k];
        value[thread * kGroup + k] = sum;
        sum += own;
      }
    });
  }
  // The sum of all values. REQUIRES: Exclusive was called.
  PS_HD uint32_t total() const { return total_; }
  // The sum of the values up to that of the thread. REQUIRES: Exclusive was called.
  PS_HD uint32_t Through(uint32_t thread) const {
    return thread + 1 < kThreads ? value[thread + 1] : total_;
  }

 private:
  static constexpr uint32_t kGroup = 16, kGroups = kThreads / kGroup;
  uint32_t group_[kGroups];
  uint32_t total_;
};

// What the blocks of a running sum tell each other; see PublishNumber. All 0 at first.
struct ScanState {
  uint32_t started;  // chunks
  uint32_t sums[];   // of each chunk, plus 1; 0: not yet known

  // Returns the chunk that a block takes. One thread calls it.
  PS_HD uint32_t Take() { return AtomicAdd(&started, 1); }
  // Tells the sum of a chunk. One thread calls it.
  PS_HD void Tell(uint32_t chunk, uint32_t sum) { PublishNumber(&sums[chunk], sum + 1); }
  // add(sum) for each chunk before this one, dealt to the block's threads.
  template <typename Add>
  PS_HD void ForSumsBefore(uint32_t chunk, uint32_t thread, Add add) const {
    for (uint32_t c = thread; c < chunk; c += kThreads) add(AwaitNumber(&sums[c]) - 1);
  }
  // A phase: adds the sums of the chunks before this one to *before, in shared memory.
  PS_HD void AddSumsBefore(const Block& block, uint32_t chunk, uint32_t* before) const {
    block.Each([&](uint32_t thread) {
      uint32_t own = 0;
      ForSumsBefore(chunk, thread, [&](uint32_t sum) { own += sum; });
      if (own != 0) AtomicAdd(before, own);
    });
  }
};

inline uint32_t ScanChunksOf(size_t count) {
  return static_cast<uint32_t>((count + kScanChunk - 1) / kScanChunk);
}

// The state of a running sum of up to `chunks` chunks.
template <typename Queue>
ScanState* NewScan(Queue& queue, uint32_t chunks) {
  uint32_t* const words = queue.template Scratch<uint32_t>(1 + chunks);
  queue.Zero(words, 1 + chunks);
  return reinterpret_cast<ScanState*>(words);
}

// Which of four neighbors are listed: bit k is of number i + k. Of ties only the first are listed.
struct ListFlags {
  uint32_t sure = 0, tied = 0;
};

// Lists numbers, ascending:
//   of.Count(), of.In()          how many numbers there are, and their source
//   of.Ties()                    how many ties are listed
//   of.Begin()                   returns a function that makes ListFlags of (i, values, count), the
//                                numbers from i on; see ForRuns
//   of.Put(at, i)                number i is listed as number `at`
//   of.End(how many are listed)  called by one thread; not called if there are no numbers
// A block has one chunk.
template <typename Of>
struct ListBody {
  static constexpr uint32_t kEach = kScanChunk / kThreads;
  static_assert(kEach == 16);  // a thread has half a word of flags
  struct Shared {
    BlockScan scan;
    uint32_t chunk;
    uint32_t sure_before, ties_before;  // in the chunks before
    uint32_t sure[kScanChunk / 32], tied[kScanChunk / 32];
  };
  Of of;
  ScanState* state;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t count = of.Count();
    if (size_t{block.index()} * kScanChunk >= count) return;
    block.ForEach(kScanChunk / 32, [&](size_t w) {
      shared.sure[w] = shared.tied[w] = 0;
      if (w > 0) return;
      shared.chunk = state->Take();
      shared.sure_before = shared.ties_before = 0;
    });
    const uint32_t chunk = shared.chunk, begin = chunk * kScanChunk;
    block.Each([&](uint32_t thread) {
      const auto flags_of = of.Begin();
      ForRuns<kScanChunk>(of.In(), begin, count, thread, [&](size_t i, Four& values, auto own) {
        const ListFlags flags = flags_of(i, values, own);
        const auto at = static_cast<uint32_t>(i - begin);
        if (flags.sure != 0) AtomicOr(&shared.sure[at / 32], flags.sure << (at % 32));
        if (flags.tied != 0) AtomicOr(&shared.tied[at / 32], flags.tied << (at % 32));
      });
    });
    // Both counts in one number: a chunk has at most 4096 of each.
    block.Each([&](uint32_t thread) {
      shared.scan.value[thread] =
          CountBits(FlagsOf(shared.sure, thread)) | CountBits(FlagsOf(shared.tied, thread)) << 16;
    });
    shared.scan.Exclusive(block);
    block.Once([&] { state->Tell(chunk, shared.scan.total()); });
    block.Each([&](uint32_t thread) {
      uint32_t sure = 0, ties = 0;
      state->ForSumsBefore(chunk, thread, [&](uint32_t sums) {
        sure += sums & 0xFFFF;
        ties += sums >> 16;
      });
      if (sure != 0) AtomicAdd(&shared.sure_before, sure);
      if (ties != 0) AtomicAdd(&shared.ties_before, ties);
    });
    const uint32_t most = of.Ties();
    block.Each([&](uint32_t thread) {
      const uint32_t sums = shared.scan.value[thread];
      List(begin + thread * kEach, FlagsOf(shared.sure, thread), FlagsOf(shared.tied, thread),
           shared.sure_before + (sums & 0xFFFF), shared.ties_before + (sums >> 16), most);
      if (thread > 0 || count - begin > kScanChunk) return;
      const uint32_t all = shared.scan.total(), ties = shared.ties_before + (all >> 16);
      of.End(shared.sure_before + (all & 0xFFFF) + (ties < most ? ties : most));
    });
  }

 private:
  // The flags of a thread's neighbors.
  PS_HD static uint32_t FlagsOf(const uint32_t* words, uint32_t thread) {
    return words[thread / 2] >> (thread % 2 * 16) & 0xFFFF;
  }

  // Lists a thread's numbers from `first` on, behind `before` sure ones and `ties` ties.
  PS_HD void List(uint32_t first, uint32_t sure, uint32_t tied, uint32_t before, uint32_t ties,
                  uint32_t most) const {
    for (uint32_t k = 0; (sure | tied) >> k != 0; ++k) {
      const bool is_tie = tied >> k & 1;
      if ((sure >> k & 1) != 0 || (is_tie && ties < most)) {
        of.Put(before + (ties < most ? ties : most), first + k);
      }
      before += sure >> k & 1;
      ties += is_tie;
    }
  }
};

// `elements`: the most numbers that there may be.
template <typename Queue, typename Of>
void ListNumbers(Queue& queue, uint32_t elements, const Of& of) {
  const uint32_t chunks = ScanChunksOf(elements);
  queue.Launch(chunks, ListBody<Of>{of, NewScan(queue, chunks)});
}

}  // namespace psgd::cuda
