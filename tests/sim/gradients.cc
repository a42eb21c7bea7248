#include "tests/sim/gradients.h"

#include "common/philox.h"

namespace psgd::sim {
namespace {

RandomStream Draws(uint64_t seed, uint32_t member, uint64_t clock, uint32_t slice) {
  const PhiloxKey key{static_cast<uint32_t>(seed), 0x5eed};
  return RandomStream(key, clock << 32 | uint64_t{member} << 16 | slice);
}

float SmallWhole(RandomStream& draws) { return static_cast<float>(draws.NextBelow(7)) - 3; }

}  // namespace

std::vector<float> WholeGradient(uint64_t seed, uint32_t member, uint64_t clock, uint32_t slice,
                                 uint32_t elements) {
  std::vector<float> gradient(elements);
  gradient[RegisterAt(member, clock)] = -1;
  RandomStream draws = Draws(seed, member, clock, slice);
  for (uint32_t i = kRegister; i < elements; ++i) gradient[i] = SmallWhole(draws);
  return gradient;
}

std::vector<float> PlainGradient(uint64_t seed, uint32_t member, uint64_t clock, uint32_t slice,
                                 uint32_t elements) {
  std::vector<float> gradient(elements);
  RandomStream draws = Draws(seed, member, clock, slice);
  for (float& value : gradient) value = SmallWhole(draws);
  return gradient;
}

std::vector<float> SmoothGradient(uint64_t seed, uint32_t worker, uint64_t clock, uint32_t slice,
                                  std::span<const float> weights) {
  std::vector<float> gradient(weights.size());
  RandomStream draws = Draws(seed, worker, clock, slice);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = 0.1f * weights[i] + draws.NextUnit() - 0.5f;
  }
  return gradient;
}

}  // namespace psgd::sim
