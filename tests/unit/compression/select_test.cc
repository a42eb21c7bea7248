#include "compression/sparse/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/philox.h"
#include "compression/codec.h"

namespace psgd {
namespace {

std::vector<float> Draw(size_t count, uint64_t seed, bool ties) {
  RandomStream stream(MakeKey(seed, RandomPurpose::kSynthetic), 0);
  std::vector<float> values(count);
  for (float& v : values) {
    v = ties ? static_cast<float>(stream.NextBelow(7)) - 3 : stream.NextUnit() - 0.5f;
  }
  return values;
}

TEST(FindCut, KeepsExactlyTheAskedNumber) {
  std::vector<uint32_t> scratch;
  for (bool ties : {false, true}) {
    for (size_t count : {1, 2, 17, 1000, 5003}) {
      const std::vector<float> values = Draw(count, count, ties);
      std::vector<uint32_t> bits;
      for (float v : values) bits.push_back(MagnitudeBits(v));
      std::ranges::sort(bits, std::greater<>());
      for (size_t keep : {size_t{1}, count / 3 + 1, count}) {
        const Cut cut = FindCut(values, keep, &scratch);
        EXPECT_EQ(cut.least, bits[keep - 1]);
        const size_t above = static_cast<size_t>(
            std::ranges::count_if(bits, [&](uint32_t b) { return b > cut.least; }));
        EXPECT_EQ(above + cut.ties, keep);
      }
    }
  }
}

TEST(GuessLeast, NearlyAlwaysLeavesEnoughAndNotTooMuch) {
  std::vector<uint32_t> scratch;
  int misses = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> values = Draw(100000, seed, false);
    const auto sample = [&](size_t begin, float* run) {
      std::copy_n(&values[begin], kSampleRun, run);
    };
    const uint32_t least = GuessLeast(values.size(), sample, 1000, true, &scratch);
    const auto reached =
        std::ranges::count_if(values, [&](float v) { return MagnitudeBits(v) >= least; });
    misses += reached < 1000 || reached > 4000;
  }
  EXPECT_LE(misses, 1);
}

// Compares the encoder's choice with a full sort, for gradients whose samples are representative
// and for others.
void ExpectTopk(const std::vector<float>& gradient, double density) {
  CodecConfig config;
  config.mutable_topk()->set_density(density);
  const auto codec = MakeCodec(config).value();
  SliceShape shape;
  shape.elements = static_cast<uint32_t>(gradient.size());
  std::vector<std::byte> payload;
  codec->NewEncoder(shape)->Encode({gradient, {}, {}, 0}, &payload);

  std::vector<uint32_t> order(gradient.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
    return std::fabs(gradient[a]) > std::fabs(gradient[b]);
  });
  order.resize(std::max<size_t>(
      1, static_cast<size_t>(std::lround(density * static_cast<double>(gradient.size())))));
  // Zeros are sent only if all elements are.
  if (order.size() < gradient.size())
    std::erase_if(order, [&](uint32_t i) { return gradient[i] == 0; });
  std::ranges::sort(order);

  std::vector<uint32_t> indices(order.size() + 1);
  std::vector<float> values(order.size() + 1);
  const auto reader = codec->Open(payload, shape).value();
  if (order.size() == gradient.size()) {
    std::vector<float> all(gradient.size());
    reader->AddBlock(1, all);
    EXPECT_EQ(all, gradient);
    return;
  }
  const size_t count = reader->NextEntries(indices, values);
  indices.resize(count);
  EXPECT_EQ(indices, order);
  for (size_t i = 0; i < count; ++i) EXPECT_EQ(values[i], gradient[indices[i]]);
}

TEST(Topk, KeepsTheLargestLowerIndexFirst) {
  for (size_t count : {1, 2, 99, 16384, 50000}) {
    for (double density : {0.001, 0.01, 0.05, 0.3, 1.0}) {
      ExpectTopk(Draw(count, 1, false), density);
      ExpectTopk(Draw(count, 2, true), density);
    }
  }
  ExpectTopk(std::vector<float>(30000, 0.0f), 0.01);
  ExpectTopk(std::vector<float>(30000, -2.0f), 0.01);
}

// As in embeddings and wide regressions, where a batch touches few elements.
TEST(Topk, ZerosAreNotSent) {
  for (size_t few : {0, 1, 40, 290, 310}) {
    std::vector<float> gradient(30000);
    for (size_t i = 0; i < few; ++i) gradient[i * 97] = 0.5f - static_cast<float>(i % 2);
    ExpectTopk(gradient, 0.01);
    for (const auto& [density, select] :
         {std::pair(0.02, TopkCodec::EXACT), std::pair(0.02, TopkCodec::SAMPLED),
          std::pair(0.1, TopkCodec::EXACT)}) {
      for (const auto values : {TopkCodec::FP32, TopkCodec::FP16, TopkCodec::TERNARY}) {
        CodecConfig config;
        config.mutable_topk()->set_density(density);
        config.mutable_topk()->set_select(select);
        config.mutable_topk()->set_values(values);
        const auto codec = MakeCodec(config).value();
        SliceShape shape;
        shape.elements = static_cast<uint32_t>(gradient.size());
        std::vector<std::byte> payload;
        codec->NewEncoder(shape)->Encode({gradient, {}, {}, 0}, &payload);
        EXPECT_LE(payload.size(), 8 + 4 + 6 * few) << few;
        std::vector<float> decoded(gradient.size());
        codec->Open(payload, shape).value()->AddBlock(1, decoded);
        EXPECT_EQ(decoded, gradient) << few;
      }
    }
  }
}

TEST(Topk, SamplesThatMisleadDoNotMatter) {
  // The large elements are all in one place that a sample hardly sees, or everywhere else.
  for (float rest : {0.0f, 1.0f}) {
    std::vector<float> gradient = Draw(40000, 3, false);
    for (size_t i = 0; i < gradient.size(); ++i) {
      if (i < 20000 || i > 20300) gradient[i] = rest == 0 ? 0 : rest + gradient[i];
    }
    ExpectTopk(gradient, 0.01);
  }
}

}  // namespace
}  // namespace psgd
