// Runs the codecs' kernels on a host. Each launch is a loop over its blocks, each phase a loop over
// its threads, from the first to the last. Backward loops reveal code that depends on the order.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compression/cuda/launch_queue.h"

namespace psgd::codec_test {

// See launch_queue.h.
class HostRunner {
 public:
  // `put` keeps a launch for later; null: launches run at once.
  explicit HostRunner(bool backwards, std::function<void(std::function<void()>)> put = nullptr)
      : backwards_(backwards), put_(std::move(put)) {}

  template <typename Body>
  static void Run(HostRunner& runner, std::span<const cuda::Part> parts) {
    cuda::ForEachFused<Body>(parts, [&](const cuda::FusedBodies<Body>& bodies) {
      if (runner.put_ == nullptr) return RunAll(bodies, runner.backwards_);
      // The memory that it uses lives as long as the launch.
      runner.put_([bodies, backwards = runner.backwards_, scratch = runner.scratch_] {
        RunAll(bodies, backwards);
      });
    });
  }

  // Has exactly that size, so that a sanitizer detects an access beyond the end.
  void* ScratchAt(size_t offset, size_t bytes) {
    if (offset == 0) scratch_ = std::make_shared<std::vector<std::unique_ptr<std::byte[]>>>();
    std::byte* memory = scratch_->emplace_back(std::make_unique<std::byte[]>(bytes)).get();
    std::memset(memory, kGarbage, bytes);
    return memory;
  }

 private:
  template <typename Body>
  static void RunAll(const cuda::FusedBodies<Body>& bodies, bool backwards) {
    auto shared = std::make_unique<typename Body::Shared>();
    const uint32_t blocks = bodies.blocks();
    for (uint32_t b = 0; b < blocks; ++b) {
      // Shared memory holds garbage at first, as on a device.
      std::memset(static_cast<void*>(shared.get()), kGarbage, sizeof(*shared));
      bodies.Run(backwards ? blocks - 1 - b : b, *shared, backwards);
    }
  }

  static constexpr int kGarbage = 0xA5;

  const bool backwards_;
  const std::function<void(std::function<void()>)> put_;
  std::shared_ptr<std::vector<std::unique_ptr<std::byte[]>>> scratch_;  // since the last offset 0
};

using HostQueue = cuda::LaunchQueue<HostRunner>;

}  // namespace psgd::codec_test
