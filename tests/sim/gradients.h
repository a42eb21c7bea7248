// Gradients made so that weights tell which updates they contain.
//
// Every slice begins with a register: one element for each (member, clock), where the member's
// update of that clock has -1 and all others 0. With learning rate 1 the weight there becomes
// initial + 1 when the update was applied, + 2 when it was applied twice. Behind it are small whole
// numbers, drawn from (member, clock, slice), that check the contents. All sums are exact in fp32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace psgd::sim {

inline constexpr uint32_t kMembers = 16;  // incarnations that may train in one run
inline constexpr uint32_t kClocks = 64;   // the last one that fits the register
inline constexpr uint32_t kRegister = kMembers * kClocks;
inline constexpr uint32_t kContents = 24;  // elements behind the register
inline constexpr float kInitial = 2;

inline uint32_t RegisterAt(uint32_t member, uint64_t clock) {
  return member * kClocks + static_cast<uint32_t>(clock) - 1;
}

// `contents` alone are the elements from kRegister on; they depend on the seed too.
std::vector<float> WholeGradient(uint64_t seed, uint32_t member, uint64_t clock, uint32_t slice,
                                 uint32_t elements);
// Only whole numbers, no register: for lossy codecs.
std::vector<float> PlainGradient(uint64_t seed, uint32_t member, uint64_t clock, uint32_t slice,
                                 uint32_t elements);
// Real numbers that depend on the weights, so that every bit of a pull matters.
std::vector<float> SmoothGradient(uint64_t seed, uint32_t worker, uint64_t clock, uint32_t slice,
                                  std::span<const float> weights);

}  // namespace psgd::sim
