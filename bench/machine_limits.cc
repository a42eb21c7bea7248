#include "bench/machine_limits.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/clock.h"

namespace psgd {
namespace {

constexpr size_t kBytes = 128u << 20;
constexpr int kRepeats = 7;

// Takes the best of several runs: a limit is what the undisturbed machine can do.
template <typename Work>
double BestSeconds(Work work) {
  work();
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    const Time start = SteadyNow();
    work();
    best = std::min(best, Seconds(SteadyNow() - start));
  }
  return best;
}

}  // namespace

double MeasureMemcpy() {
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const double seconds = BestSeconds([&] {
    std::memcpy(to.data(), from.data(), kBytes);
    asm volatile("" : : "r"(to.data()) : "memory");
  });
  return kBytes / seconds / 1e9;
}

double MeasureTriad() {
  constexpr size_t kElements = kBytes / sizeof(float);
  std::vector<float> a(kElements, 1), b(kElements, 2), c(kElements, 3);
  const double seconds = BestSeconds([&] {
    float* __restrict out = a.data();
    const float* __restrict left = b.data();
    const float* __restrict right = c.data();
    for (size_t i = 0; i < kElements; ++i) out[i] = left[i] + 0.5f * right[i];
    asm volatile("" : : "r"(out) : "memory");
  });
  return 3.0 * kBytes / seconds / 1e9;
}

}  // namespace psgd
