// The threads of a block on one thread of a host: each runs until it waits for others, or ends, and
// then another does. Forwards, or backwards, so that what depends on their order shows.
#pragma once

#include <cstdint>
#include <functional>

namespace psgd::emulated {

struct Three {
  unsigned x = 1, y = 1, z = 1;
  unsigned Count() const { return x * y * z; }
};

// Where the running thread is, as kernels read it.
struct Here {
  Three thread, block, threads_of_block, blocks;
};
extern Here here;

// Runs all blocks of a launch, one after the other. Not thread-safe. Ends the program where threads
// of a block wait for each other for ever.
void RunBlocks(const Three& blocks, const Three& threads, bool backwards,
               const std::function<void()>& kernel);

// Of the running thread: until all threads of its block, or of its warp, are here or have ended.
void AwaitBlock();
void AwaitWarp();
// What the thread gives, as that of another lane of the warp; all threads that have not ended come
// to it.
uint64_t FromLane(uint64_t mine, unsigned lane);
unsigned Lane();

}  // namespace psgd::emulated
