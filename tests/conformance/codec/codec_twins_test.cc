// All implementations of a codec write the same bytes, leave the same residual and decode to the
// same floats.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "tests/conformance/codec/codec_cases.h"

namespace psgd::codec_test {
namespace {

// Compares bits, so -0 differs from 0.
bool SameFloats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

using Pair = std::array<std::vector<float>, 2>;  // gradients of two steps

// The tensors below are made once for all codecs: tests are not optimized, and their random numbers
// took longer than the codecs.
const std::vector<Pair>& RandomPairs() {
  static const std::vector<Pair> pairs = [] {
    std::vector<Pair> made(400);
    for (uint64_t seed = 0; seed < made.size(); ++seed) {
      RandomStream stream(MakeKey(seed, RandomPurpose::kSynthetic), 1);
      const size_t elements = RandomLength(&stream);
      for (std::vector<float>& gradient : made[seed]) gradient = RandomTensor(elements, &stream);
    }
    return made;
  }();
  return pairs;
}

std::vector<float> MakeLargestSlice(uint64_t seed) {
  RandomStream stream(MakeKey(seed, RandomPurpose::kSynthetic), 2);
  const size_t elements = (1u << 20) - (seed % 2 == 1 ? 0 : 77);
  if (seed > 2) return RandomTensor(elements, &stream);
  std::vector<float> gradient(elements);
  for (float& value : gradient) value = (stream.NextUnit() - 0.5f) * stream.NextUnit();
  return gradient;
}

const std::map<uint64_t, std::vector<float>>& LargestSlices() {
  static const std::map<uint64_t, std::vector<float>> slices = {{1, MakeLargestSlice(1)},
                                                                {4, MakeLargestSlice(4)}};
  return slices;
}

class CodecTwins : public testing::TestWithParam<CodecCase> {
 protected:
  // Runs two steps with these gradients on all twins.
  void ExpectAgreement(const std::vector<std::vector<float>>& gradients, bool keep_residual,
                       uint64_t seed) {
    const size_t elements = gradients[0].size();
    Encoded expected;
    std::vector<float> expected_weights;
    for (const Twin& twin : twins_) {
      const UseTwin use(twin);
      const auto codec = Make(GetParam(), twin.backend);
      const Encoded encoded = EncodeSteps(*codec, gradients, keep_residual, seed);
      std::vector<float> weights(gradients[0]);
      AddInRaggedBlocks(*codec, encoded.payloads.back(), weights, seed);
      if (&twin == &twins_.front()) {
        expected = encoded;
        expected_weights = weights;
        continue;
      }
      ASSERT_EQ(encoded.payloads, expected.payloads) << twin.name << ", " << elements;
      ASSERT_TRUE(SameFloats(encoded.residual, expected.residual)) << twin.name << ", " << elements;
      ASSERT_TRUE(SameFloats(weights, expected_weights)) << twin.name << ", " << elements;
    }
  }

  static void AddInRaggedBlocks(const Codec& codec, ByteSpan payload, std::span<float> weights,
                                uint64_t seed) {
    const auto reader = codec.Open(payload, ShapeOf(weights.size()));
    ASSERT_TRUE(reader.ok()) << reader.status();
    RandomStream stream(MakeKey(seed, RandomPurpose::kShuffle), 0);
    while (!weights.empty()) {
      const size_t count = std::min<size_t>(weights.size(), stream.NextBelow(700));
      (*reader)->AddBlock(-0.375f, weights.first(count));
      weights = weights.subspan(count);
    }
  }

  const std::vector<Twin> twins_ = AllTwins();
};

TEST_P(CodecTwins, AgreeOnRandomTensors) {
  const std::vector<Pair>& pairs = RandomPairs();
  for (uint64_t seed = 0; seed < pairs.size(); ++seed) {
    std::vector<std::vector<float>> gradients(pairs[seed].begin(), pairs[seed].end());
    const size_t elements = gradients[0].size();
    // A sum of two huge numbers, one of them a residual, may not be finite.
    constexpr float kHuge = 1e37f;
    for (size_t i = 0; i < elements; ++i) {
      // Momentum enlarges what was not sent.
      if (GetParam().config.has_dgc()) gradients[0][i] = std::clamp(gradients[0][i], -kHuge, kHuge);
      if (std::fabs(gradients[0][i]) > kHuge) gradients[1][i] = 0;
      gradients[1][i] = std::clamp(gradients[1][i], -kHuge, kHuge);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement(gradients, seed % 4 != 0, seed)) << "seed " << seed;
  }
}

TEST_P(CodecTwins, AgreeOnTheLargestSlice) {
  for (const auto& [seed, gradient] : LargestSlices()) {
    ASSERT_NO_FATAL_FAILURE(ExpectAgreement({gradient}, true, seed)) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(AllCodecs, CodecTwins, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

TEST(Twins, RunOnTheInstructionSetThatTheyName) {
  const std::vector<Twin> twins = AllTwins();
  ASSERT_GE(twins.size(), 2u);
  for (size_t i = 1; i < twins.size(); ++i) {
    const UseTwin use(twins[i]);
    EXPECT_EQ(std::string(SimdTargetName()), twins[i].name);
  }
}

}  // namespace
}  // namespace psgd::codec_test
