#include "worker/factor_pushes.h"

#include <gtest/gtest.h>

#include <cstring>

#include "net/message.h"
#include "tests/unit/compression/factors_of.h"
#include "worker/update_encoder.h"

namespace psgd {
namespace {

constexpr size_t kRows = 40, kColumns = 50;

ParameterSpec Weights(const std::string& name = "fc.weight") {
  ParameterSpec parameter;
  parameter.set_name(name);
  parameter.add_shape(kRows);
  parameter.add_shape(kColumns);
  parameter.set_decay(true);
  return parameter;
}

// Slices cut after 900 and 1700 elements: both ends on shard 0, the middle on shard 1, and a bias.
Placement Cut(uint32_t first_end = 900, uint32_t second_end = 1700) {
  Placement placement;
  const auto add = [&](uint32_t parameter, uint64_t offset, uint32_t count, uint32_t shard) {
    SliceSpec* slice = placement.add_slices();
    slice->set_parameter(parameter);
    slice->set_offset(offset);
    slice->set_count(count);
    slice->set_shard(shard);
  };
  add(0, 0, 40, 0);
  add(1, 0, first_end, 0);
  add(1, first_end, second_end - first_end, 1);
  add(1, second_end, kRows * kColumns - second_end, 0);
  return placement;
}

std::vector<SliceShape> Shapes(const Placement& placement, const std::vector<int>& slices) {
  std::vector<SliceShape> shapes;
  for (int id : slices) {
    SliceShape& shape = shapes.emplace_back(MatrixShape(kRows, kColumns));
    shape.offset = placement.slices(id).offset();
    shape.elements = placement.slices(id).count();
  }
  return shapes;
}

TEST(FactorPushes, AreOneForEachShard) {
  const FactorsOf factors(4, kRows, kColumns, 1);
  const Placement placement = Cut();
  FactorPushes pushes(Weights(), 1, placement, 4);
  std::vector<EncodedSlice> out;
  const std::vector<float> weights(kRows * kColumns, 1.0f);
  pushes.Encode(factors.values, weights, 0.5f, 1, &out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].slice, 1u);
  EXPECT_EQ(out[0].also, (std::vector<uint32_t>{3}));
  EXPECT_EQ(out[1].slice, 2u);
  EXPECT_TRUE(out[1].also.empty());
  for (const EncodedSlice& slice : out) {
    EXPECT_EQ(slice.codec, CODEC_FACTORS);
    std::vector<int> slices = {static_cast<int>(slice.slice)};
    slices.insert(slices.end(), slice.also.begin(), slice.also.end());
    const auto shapes = Shapes(placement, slices);
    const auto readers = FactorsCodecOf()->OpenShared(slice.payload.span(), shapes);
    ASSERT_TRUE(readers.ok()) << readers.status();
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<float> values(shapes[i].elements);
      (*readers)[i]->AddBlock(1, values);
      EXPECT_EQ(values, factors.Product(shapes[i])) << "the shard adds the decay";
    }
  }
}

TEST(FactorPushes, MoreSlicesThanAMessageMayNameGetTheGradient) {
  constexpr uint32_t kSide = 200;
  static_assert(kSide * kSide > kMostParts);
  ParameterSpec parameter;
  parameter.add_shape(kSide);
  parameter.add_shape(kSide);
  for (const uint32_t count : {1u, 2u}) {
    Placement placement;
    for (uint32_t offset = 0; offset < kSide * kSide; offset += count) {
      SliceSpec* slice = placement.add_slices();
      slice->set_offset(offset);
      slice->set_count(count);
    }
    std::vector<EncodedSlice> out;
    FactorPushes pushes(parameter, 0, placement, 1);
    pushes.Encode(std::vector<float>(2 * kSide, 1.0f), {}, 0, 1, &out);
    EXPECT_EQ(out.size(), count == 1 ? kSide * kSide : 1);
  }
}

// Shard 1 has only two rows, so sending all inputs would cost more than the gradient.
TEST(FactorPushes, AShardForWhichTheyDoNotPayGetsTheGradient) {
  const FactorsOf factors(4, kRows, kColumns, 2);
  const Placement placement = Cut(900, 1000);
  FactorPushes pushes(Weights(), 1, placement, 4);
  std::vector<float> weights = Gaussian(kRows * kColumns, 3);
  for (float decay : {0.0f, 0.5f}) {
    std::vector<EncodedSlice> out;
    pushes.Encode(factors.values, weights, decay, 1, &out);
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(out[0].codec, CODEC_FACTORS);
    EXPECT_EQ(out[1].codec, CODEC_NONE);
    std::vector<float> values(100), expected = factors.Product(Shapes(placement, {2})[0]);
    ASSERT_EQ(out[1].payload.size(), 400u);
    std::memcpy(values.data(), out[1].payload.data(), 400);
    if (decay != 0) {
      for (size_t i = 0; i < 100; ++i) expected[i] += decay * weights[900 + i];
    }
    EXPECT_EQ(values, expected);
  }
}

TEST(FactorPushes, TheEncoderOfUpdatesSendsFactorsWhereThereAreAny) {
  Config config;
  config.mutable_optimizer()->mutable_sgd();
  config.mutable_compression()->mutable_push()->mutable_factors();
  ModelSpec model;
  ParameterSpec* bias = model.add_parameters();
  bias->set_name("fc.bias");
  bias->add_shape(kRows);
  *model.add_parameters() = Weights();
  const FactorsOf factors(4, kRows, kColumns, 1);
  const std::vector<float> weights(kRows * kColumns);
  for (bool handed_out : {false, true}) {
    const std::vector<int64_t> rows = {0, handed_out ? 4 : 0};
    const Placement placement = Cut();
    const auto encoder = UpdateEncoder::Create(config, model, placement, 0, rows);
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    std::vector<EncodedSlice> out;
    (*encoder)->Encode(0, std::vector<float>(kRows, 1.0f), weights, 0, 1, &out);
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].codec, CODEC_NONE);
    out.clear();
    (*encoder)->Encode(1, handed_out ? factors.values : weights, weights, 0, 1, &out);
    ASSERT_EQ(out.size(), handed_out ? 2u : 3u);
    EXPECT_EQ(out[0].codec, handed_out ? CODEC_FACTORS : CODEC_NONE);
    EXPECT_TRUE((*encoder)->CopyResiduals()->empty());
  }
}

}  // namespace
}  // namespace psgd
