#include "bench/machine_limits.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/pinned_threads.h"
#include "common/clock.h"

namespace psgd {
namespace {

constexpr size_t kBytes = 128u << 20;
constexpr int kRepeats = 7;

// Takes the best of several runs: a limit is what the undisturbed machine can do. `work` returns
// its seconds.
template <typename Work>
double BestSeconds(Work work) {
  work();
  double best = work();
  for (int i = 1; i < kRepeats; ++i) best = std::min(best, work());
  return best;
}

struct TriadBuffers {
  std::vector<float> a, b, c;

  void Run() {
    float* __restrict out = a.data();
    const float* __restrict left = b.data();
    const float* __restrict right = c.data();
    for (size_t i = 0; i < a.size(); ++i) out[i] = left[i] + 0.5f * right[i];
    asm volatile("" : : "r"(out) : "memory");
  }
};

}  // namespace

double MeasureMemcpy() {
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const double seconds = BestSeconds([&] {
    const Time start = SteadyNow();
    std::memcpy(to.data(), from.data(), kBytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    return Seconds(SteadyNow() - start);
  });
  return kBytes / seconds / 1e9;
}

double MeasureTriad(int threads) {
  const size_t elements = kBytes / sizeof(float) / static_cast<size_t>(threads);
  std::vector<TriadBuffers> parts(static_cast<size_t>(threads));
  // Each thread writes its buffers first, so that they are in the memory next to its core.
  OnPinnedThreads(threads, [&](int i) {
    const auto filled = [&](float value) { return std::vector<float>(elements, value); };
    parts[static_cast<size_t>(i)] = {filled(1), filled(2), filled(3)};
  });
  const double seconds = BestSeconds([&] {
    return OnPinnedThreads(threads, [&](int i) { parts[static_cast<size_t>(i)].Run(); });
  });
  const double bytes = 3.0 * sizeof(float) * static_cast<double>(elements) * threads;
  return bytes / seconds / 1e9;
}

}  // namespace psgd
