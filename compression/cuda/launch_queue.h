// The queue of coder.h. It notes the launches of several slices and runs them together: slices that
// make the same launches take each as one launch of the device. No Abseil: nvcc reads this. The
// Runner is a CUDA stream (queue.h) or the host loops of the tests (host_queue.h):
//   Runner::Run<Body>(parts)        launches the bodies, all of this type
//   ScratchAt(offset, bytes)        memory for that part of the scratch memory
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "compression/cuda/fused.h"

namespace psgd::cuda {

// Sets words to 0.
struct ZeroBody {
  using Shared = Nothing;
  uint32_t* words;
  size_t count;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.ForAll(count, [&](size_t i) { words[i] = 0; });
  }
};

// Not thread-safe.
template <typename Runner>
class LaunchQueue {
 public:
  explicit LaunchQueue(Runner* runner) : runner_(runner) {}

  // The calls of coder.h after this one are of another slice.
  void BeginSlice() {
    begins_.push_back(launches_.size());
    skip_ = {};
  }

  void SkipIf(const SkipMark& skip) { skip_ = skip; }
  template <typename Body>
  void Launch(uint32_t blocks, const Body& body) {
    launches_.push_back(Note(blocks, body));
  }
  template <typename T>
  void Zero(T* at, size_t count) {
    static_assert(sizeof(T) % sizeof(uint32_t) == 0);
    const size_t words = count * (sizeof(T) / sizeof(uint32_t));
    zeros_.push_back(Note(BlocksFor(words), ZeroBody{reinterpret_cast<uint32_t*>(at), words}));
    zeros_.back().skip = {};
  }
  template <typename T>
  T* Scratch(size_t count) {
    constexpr size_t kAlignment = 256;
    const size_t bytes = count * sizeof(T), offset = scratch_used_;
    scratch_used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return static_cast<T*>(runner_->ScratchAt(offset, bytes));
  }
  // The scratch memory of all slices since the last Run, in bytes.
  size_t scratch_used() const { return scratch_used_; }

  // Returns the bytes of scratch memory that encode(queue) takes. Launches nothing. REQUIRES: no
  // slice waits for Run.
  template <typename Encode>
  size_t Measure(Encode encode) {
    BeginSlice();
    encode(*this);
    const size_t used = scratch_used_;
    Clear();
    return used;
  }

  // Runs all launches of all slices, those of a slice in their order. The slices share no memory
  // that they change.
  void Run() {
    if (!zeros_.empty()) {
      for (const Noted& zero : zeros_) parts_.push_back(PartOf(zero));
      RunNow(zeros_[0].run);
    }
    begins_.push_back(launches_.size());
    std::vector<bool> done(begins_.size() - 1);
    std::vector<size_t> alike;
    for (size_t s = 0; s < done.size(); ++s) {
      if (done[s]) continue;
      alike.clear();
      for (size_t other = s; other < done.size(); ++other) {
        if (done[other] || !AreAlike(s, other)) continue;
        done[other] = true;
        alike.push_back(begins_[other]);
      }
      for (size_t k = 0; k < begins_[s + 1] - begins_[s]; ++k) {
        for (size_t begin : alike) parts_.push_back(PartOf(launches_[begin + k]));
        RunNow(launches_[begins_[s] + k].run);
      }
    }
    Clear();
  }

  // Forgets all launches.
  void Clear() {
    launches_.clear();
    zeros_.clear();
    words_.clear();
    begins_.clear();
    skip_ = {};
    scratch_used_ = 0;
  }

 private:
  using RunParts = void (*)(Runner&, std::span<const Part>);
  struct alignas(16) Word {
    std::byte bytes[16];
  };
  struct Noted {
    RunParts run;  // by the type of the body
    uint32_t blocks;
    SkipMark skip;
    size_t body;  // place in words_
  };

  template <typename Body>
  Noted Note(uint32_t blocks, const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body> && alignof(Body) <= alignof(Word));
    const size_t at = words_.size();
    words_.resize(at + (sizeof(Body) + sizeof(Word) - 1) / sizeof(Word));
    std::memcpy(&words_[at], &body, sizeof(Body));
    return {&Runner::template Run<Body>, blocks, skip_, at};
  }

  Part PartOf(const Noted& noted) const { return {&words_[noted.body], noted.blocks, noted.skip}; }
  void RunNow(RunParts run) {
    run(*runner_, parts_);
    parts_.clear();
  }
  // Whether two slices launch the same types of bodies in the same order.
  bool AreAlike(size_t a, size_t b) const {
    const auto of = [&](size_t s) {
      return std::span(launches_).subspan(begins_[s], begins_[s + 1] - begins_[s]);
    };
    return std::ranges::equal(of(a), of(b), {}, &Noted::run, &Noted::run);
  }

  Runner* const runner_;
  std::vector<Noted> launches_, zeros_;
  std::vector<Word> words_;     // the bodies
  std::vector<size_t> begins_;  // of the slices' launches
  std::vector<Part> parts_;     // of one launch
  SkipMark skip_;
  size_t scratch_used_ = 0;
};

}  // namespace psgd::cuda
