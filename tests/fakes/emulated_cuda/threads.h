// Runs the threads of a block on one host thread: each runs until it waits or ends, then the next.
// The order is forwards or backwards, so that tests find code that depends on the order.
#pragma once

#include <cstdint>
#include <functional>

namespace psgd::emulated {

struct Three {
  unsigned x = 1, y = 1, z = 1;
  unsigned Count() const { return x * y * z; }
};

// The place of the running thread, which kernels read.
struct Here {
  Three thread, block, threads_of_block, blocks;
};
extern Here here;

// Runs all blocks of a launch, one after the other. Aborts the program if threads of a block wait
// for each other forever. Not thread-safe.
void RunBlocks(const Three& blocks, const Three& threads, bool backwards,
               const std::function<void()>& kernel);

// Wait until all threads of the running thread's block, or warp, wait here or have ended.
void AwaitBlock();
void AwaitWarp();
// Gives `mine` and returns the value that `lane` of the warp gives. REQUIRES: all threads of the
// warp that have not ended call it.
uint64_t FromLane(uint64_t mine, unsigned lane);
unsigned Lane();

}  // namespace psgd::emulated
