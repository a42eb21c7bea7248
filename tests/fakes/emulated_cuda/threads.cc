#include "tests/fakes/emulated_cuda/threads.h"

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace psgd::emulated {

Here here;

namespace {

constexpr unsigned kWarp = 32;
constexpr size_t kStack = 256 << 10;

enum class State { kReady, kAtWarp, kAtBlock };

// Runs threads of a block one after the other, until one waits. makecontext makes a fiber. Later
// entries use longjmp, which needs no system call.
struct Fiber {
  ucontext_t context;
  jmp_buf place;
  bool entered = false;
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStack);
  unsigned thread = 0;
  State state = State::kReady;
};

struct Warp {
  std::array<std::array<uint64_t, kWarp>, 2> given;  // values of this and the previous exchange
};

Three PlaceOf(unsigned index, const Three& of) {
  return {index % of.x, index / of.x % of.y, index / of.x / of.y};
}

class BlockRun {
 public:
  void Run(unsigned threads, bool backwards, const std::function<void()>& kernel) {
    kernel_ = &kernel;
    threads_ = threads;
    backwards_ = backwards;
    started_ = 0;
    warps_.resize((threads + kWarp - 1) / kWarp);
    exchanges_.assign(threads, 0);
    waiting_.clear();
    while (started_ < threads_) Resume(Fresh());
    while (!waiting_.empty()) {
      const std::vector<Fiber*> released = Release();
      for (Fiber* fiber : released) Resume(fiber);
    }
  }

  void Await(State state) {
    running_->state = state;
    Leave();
  }

  uint64_t Exchange(uint64_t mine, unsigned lane) {
    const unsigned thread = running_->thread, warp = thread / kWarp;
    const unsigned parity = exchanges_[thread]++ % 2;
    warps_[warp].given[parity][thread % kWarp] = mine;
    Await(State::kAtWarp);
    return warps_[warp].given[parity][lane];
  }

  unsigned thread() const { return running_->thread; }

 private:
  static void Enter() { Instance().RunThreads(); }
  friend BlockRun& Instance();
  static BlockRun& Instance() {
    static BlockRun run;
    return run;
  }

  Fiber* Fresh() {
    if (idle_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>());
      Fiber* const fiber = fibers_.back().get();
      getcontext(&fiber->context);
      fiber->context.uc_stack.ss_sp = fiber->stack.get();
      fiber->context.uc_stack.ss_size = kStack;
      fiber->context.uc_link = nullptr;
      makecontext(&fiber->context, &BlockRun::Enter, 0);
      idle_.push_back(fiber);
    }
    Fiber* const fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }

  // The endless loop of a fiber: runs threads that have not begun, then leaves until its next use.
  void RunThreads() {
    for (;; Leave()) {
      Fiber* const fiber = running_;
      do {
        const unsigned next = started_++;
        fiber->thread = backwards_ ? threads_ - 1 - next : next;
        here.thread = PlaceOf(fiber->thread, here.threads_of_block);
        (*kernel_)();
      } while (started_ < threads_);
      fiber->state = State::kReady;
    }
  }

  // Leaves the running fiber until Resume.
  void Leave() {
    if (_setjmp(running_->place) == 0) _longjmp(scheduler_, 1);
  }
  void Resume(Fiber* fiber) {
    running_ = fiber;
    fiber->state = State::kReady;
    here.thread = PlaceOf(fiber->thread, here.threads_of_block);
    if (_setjmp(scheduler_) == 0) {
      if (fiber->entered) _longjmp(fiber->place, 1);
      fiber->entered = true;
      setcontext(&fiber->context);
    }
    (running_->state == State::kReady ? idle_ : waiting_).push_back(running_);
  }

  // Removes and returns the fibers that need not wait any more.
  std::vector<Fiber*> Release() {
    bool all_at_block = true;
    std::vector<bool> warp_waits(warps_.size(), true);
    for (const Fiber* fiber : waiting_) {
      if (fiber->state == State::kAtBlock) {
        warp_waits[fiber->thread / kWarp] = false;
      } else {
        all_at_block = false;
      }
    }
    std::vector<Fiber*> released;
    std::erase_if(waiting_, [&](Fiber* fiber) {
      const bool goes_on = all_at_block || warp_waits[fiber->thread / kWarp];
      if (goes_on) released.push_back(fiber);
      return goes_on;
    });
    if (!released.empty()) return released;
    std::fprintf(stderr,
                 "a kernel's threads wait for each other for ever: some of a warp exchange "
                 "values, some wait for their block\n");
    std::abort();
  }

  const std::function<void()>* kernel_ = nullptr;
  unsigned threads_ = 0, started_ = 0;
  bool backwards_ = false;
  jmp_buf scheduler_;
  Fiber* running_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_, waiting_;
  std::vector<Warp> warps_;
  std::vector<unsigned> exchanges_;  // by thread: the exchanges made
};

BlockRun& Instance() { return BlockRun::Instance(); }

}  // namespace

void RunBlocks(const Three& blocks, const Three& threads, bool backwards,
               const std::function<void()>& kernel) {
  here.blocks = blocks;
  here.threads_of_block = threads;
  for (unsigned i = 0; i < blocks.Count(); ++i) {
    here.block = PlaceOf(backwards ? blocks.Count() - 1 - i : i, blocks);
    Instance().Run(threads.Count(), backwards, kernel);
  }
}

void AwaitBlock() { Instance().Await(State::kAtBlock); }
void AwaitWarp() { Instance().Await(State::kAtWarp); }
uint64_t FromLane(uint64_t mine, unsigned lane) { return Instance().Exchange(mine, lane); }
unsigned Lane() { return Instance().thread() % kWarp; }

}  // namespace psgd::emulated
