#include "proto/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/philox.h"

namespace psgd {
namespace {

// Calls fill(block of four words) -> four floats for each group of four elements that the range
// touches, and keeps the floats inside the range.
template <typename Fill>
void ForBlocks(PhiloxKey key, uint64_t offset, std::span<float> out, Fill fill) {
  for (size_t done = 0; done < out.size();) {
    const uint64_t element = offset + done;
    float values[4];
    fill(Philox(key, element / 4, 0), values);
    const size_t first = element % 4;
    const size_t count = std::min(4 - first, out.size() - done);
    std::copy_n(values + first, count, out.begin() + done);
    done += count;
  }
}

void FillUniform(const Initializer::Uniform& uniform, PhiloxKey key, uint64_t offset,
                 std::span<float> out) {
  const float low = uniform.low(), width = uniform.high() - uniform.low();
  ForBlocks(key, offset, out, [=](PhiloxBlock block, float* values) {
    for (int i = 0; i < 4; ++i) values[i] = low + width * UnitFloat(block.word[i]);
  });
}

// Box-Muller: two uniform words give two normal values. Computed in double, so that the last bit of
// the fp32 result does not depend on the math library.
void FillNormal(const Initializer::Normal& normal, PhiloxKey key, uint64_t offset,
                std::span<float> out) {
  const double mean = normal.mean(), stddev = normal.stddev();
  ForBlocks(key, offset, out, [=](PhiloxBlock block, float* values) {
    for (int pair = 0; pair < 4; pair += 2) {
      const double u = (block.word[pair] + 0.5) * 0x1p-32;  // in (0, 1): the logarithm is finite
      const double angle = 2 * std::numbers::pi * (block.word[pair + 1] * 0x1p-32);
      const double radius = std::sqrt(-2 * std::log(u));
      values[pair] = static_cast<float>(mean + stddev * radius * std::cos(angle));
      values[pair + 1] = static_cast<float>(mean + stddev * radius * std::sin(angle));
    }
  });
}

}  // namespace

void FillInitial(const ParameterSpec& spec, uint64_t seed, uint32_t parameter_index,
                 uint64_t offset, std::span<float> out) {
  const PhiloxKey key = MakeKey(seed, RandomPurpose::kInitialWeights, parameter_index);
  switch (spec.initializer().kind_case()) {
    case Initializer::kUniform:
      FillUniform(spec.initializer().uniform(), key, offset, out);
      return;
    case Initializer::kNormal:
      FillNormal(spec.initializer().normal(), key, offset, out);
      return;
    default:
      std::fill(out.begin(), out.end(), spec.initializer().constant().value());
  }
}

}  // namespace psgd
