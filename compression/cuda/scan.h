// Running sums of whole numbers, each as one launch on a queue.
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

 private:
  static constexpr uint32_t kGroup = 16, kGroups = kThreads / kGroup;
  uint32_t group_[kGroups];
  uint32_t total_;
};

// Finds where a running sum reaches a number.
class BlockReach {
 public:
  uint32_t found;  // index of the term that reaches it
  uint32_t left;   // what the terms before that one leave of the number

  // REQUIRES: of(0) + ... + of(count - 1) >= wanted > 0.
  template <typename Of>
  PS_HD void Find(const Block& block, uint32_t count, uint32_t wanted, Of of) {
    block.Once([&] {
      found = count;
      left = wanted;
    });
    for (uint32_t first = 0; first < count && found == count; first += kThreads) {
      block.Each([&](uint32_t thread) {
        scan_.value[thread] = first + thread < count ? of(first + thread) : 0;
      });
      const uint32_t wanted_here = left;
      scan_.Exclusive(block);
      block.Each([&](uint32_t thread) {
        const uint32_t before = scan_.value[thread];
        const uint32_t end = thread + 1 < kThreads ? scan_.value[thread + 1] : scan_.total();
        if (before >= wanted_here || end < wanted_here) return;
        found = first + thread;
        left = wanted_here - before;
      });
      block.Once([&] {
        if (found == count) left -= scan_.total();
      });
    }
  }

 private:
  BlockScan scan_;
};

// put(i, term) for each term of the chunk that begins at `begin`, dealt to a block's threads.
// of.Begin() returns the function that computes term i from i. If `of` has Out(), the function also
// gets number i of the source Out().
template <typename Of, typename Put>
PS_HD void ForTerms(const Of& of, uint32_t begin, uint32_t count, uint32_t thread, const Put& put) {
  const auto term = of.Begin();
  if constexpr (requires { of.Out(); }) {
    ForRuns<kScanChunk>(of.Out(), begin, count, thread,
                        [&](size_t i, const Four& values, uint32_t own) {
                          const auto first = static_cast<uint32_t>(i);
                          for (uint32_t k = 0; k < own; ++k) {
                            put(first + k, uint32_t{term(first + k, values.at[k])});
                          }
                        });
  } else {
    const uint32_t end = count - begin < kScanChunk ? count : begin + kScanChunk;
    for (uint32_t i = begin + thread; i < end; i += kThreads) put(i, term(i));
  }
}

// What the blocks of a running sum tell each other. All 0 at first.
struct ScanState {
  uint32_t started;  // chunks
  uint32_t sums[];   // of each chunk, plus 1; 0: not yet known
};

// A thread calls ready(i, term, sum of the terms before it) for neighbors, with
// ready = use.Begin(), then ready.End(). A block has one chunk. Blocks
// take the chunks in the order in which they start, so none waits for one that has not started.
template <typename Of, typename Use>
struct TermsBody {
  static constexpr uint32_t kEach = kScanChunk / kThreads;
  struct Shared {
    BlockScan scan;
    uint32_t chunk, before;
    uint32_t term[kScanChunk + kThreads];
  };
  Of of;
  uint32_t count;
  ScanState* state;
  uint32_t* all;  // the sum of all terms; may be null
  Use use;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    block.Once([&] {
      shared.chunk = AtomicAdd(&state->started, 1);
      shared.before = 0;
    });
    const uint32_t chunk = shared.chunk, begin = chunk * kScanChunk;
    const uint32_t own = count - begin < kScanChunk ? count - begin : kScanChunk;
    block.Each([&](uint32_t thread) {
      ForTerms(of, begin, count, thread,
               [&](uint32_t i, uint32_t term) { shared.term[Place(i - begin)] = term; });
      for (uint32_t k = own + thread; k < kScanChunk; k += kThreads) shared.term[Place(k)] = 0;
    });
    block.Each([&](uint32_t thread) {
      uint32_t sum = 0;
      for (uint32_t k = 0; k < kEach; ++k) sum += shared.term[Place(thread * kEach + k)];
      shared.scan.value[thread] = sum;
    });
    shared.scan.Exclusive(block);
    block.Once([&] { PublishNumber(&state->sums[chunk], shared.scan.total() + 1); });
    block.Each([&](uint32_t thread) {
      uint32_t before = 0;
      for (uint32_t c = thread; c < chunk; c += kThreads)
        before += AwaitNumber(&state->sums[c]) - 1;
      if (before != 0) AtomicAdd(&shared.before, before);
    });
    block.Once([&] {
      if (all != nullptr && begin + own == count) *all = shared.before + shared.scan.total();
    });
    block.Each([&](uint32_t thread) {
      uint32_t sum = shared.before + shared.scan.value[thread];
      auto ready = use.Begin();
      for (uint32_t k = thread * kEach; k < (thread + 1) * kEach; ++k) {
        const uint32_t term = shared.term[Place(k)];
        if (k < own) ready(begin + k, term, sum);
        sum += term;
      }
      ready.End();
    });
  }

 private:
  // Leaves a gap between the threads' terms, which would lie in one bank of memory.
  PS_HD static uint32_t Place(uint32_t k) { return k + k / kEach; }
};

// `all` is 0 if there are no terms: REQUIRES: it is 0 before.
template <typename Queue, typename Of, typename Use>
void ForEachTerm(Queue& queue, uint32_t count, const Of& of, uint32_t* all, const Use& use) {
  const uint32_t chunks = (count + kScanChunk - 1) / kScanChunk;
  uint32_t* const words = queue.template Scratch<uint32_t>(1 + chunks);
  queue.Zero(words, 1 + chunks);
  queue.Launch(chunks,
               TermsBody<Of, Use>{of, count, reinterpret_cast<ScanState*>(words), all, use});
}

struct ListIfFlagged {
  uint32_t* out;
  PS_HD const ListIfFlagged& Begin() const { return *this; }
  PS_HD void operator()(uint32_t i, uint32_t flag, uint32_t before) const {
    if (flag != 0) out[before] = i;
  }
  PS_HD void End() const {}
};

// Lists each i below `count` with flag(i), ascending, and stores how many there are.
template <typename Queue, typename Flag>
void Select(Queue& queue, uint32_t count, const Flag& flag, uint32_t* out, uint32_t* found) {
  ForEachTerm(queue, count, flag, found, ListIfFlagged{out});
}

}  // namespace psgd::cuda
