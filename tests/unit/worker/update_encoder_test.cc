#include "worker/update_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compression/policy.h"
#include "tests/conformance/codec/emulated_codecs.h"
#include "tests/unit/worker/encode_step.h"

namespace psgd {
namespace {

std::map<uint32_t, Bytes> Saved(const UpdateEncoder& encoder) {
  const auto residuals = encoder.CopyResiduals().value();
  return {residuals.begin(), residuals.end()};
}

// Encodes one parameter of four elements, with a decay of 0.5, gradient 1 and weights 2.
std::vector<float> Encoded(const OptimizerConfig& optimizer, bool decays) {
  Config config;
  *config.mutable_optimizer() = optimizer;
  config.mutable_compression()->mutable_push()->mutable_none();
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(4);
  parameter->set_decay(decays);
  Placement placement;
  placement.add_slices()->set_count(4);
  const auto encoder = UpdateEncoder::Create(config, model, placement, 0);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  std::vector<EncodedSlice> slices;
  const std::vector<float> gradient(4, 1.0f), weights(4, 2.0f);
  (*encoder)->Encode(0, gradient, weights, 0.5, 1, &slices);
  std::vector<float> values(4);
  EXPECT_EQ(slices.size(), 1u);
  std::memcpy(values.data(), slices[0].payload.data(), 16);
  return values;
}

TEST(UpdateEncoder, AddsCoupledWeightDecayToTheGradient) {
  OptimizerConfig sgd;
  sgd.mutable_sgd();
  EXPECT_EQ(Encoded(sgd, true), std::vector<float>(4, 2.0f));
  EXPECT_EQ(Encoded(sgd, false), std::vector<float>(4, 1.0f));
}

// The server applies it, so the worker must not.
TEST(UpdateEncoder, LeavesDecoupledWeightDecayToTheServer) {
  OptimizerConfig adamw, lamb;
  adamw.mutable_adamw();
  lamb.mutable_lamb();
  EXPECT_EQ(Encoded(adamw, true), std::vector<float>(4, 1.0f));
  EXPECT_EQ(Encoded(lamb, true), std::vector<float>(4, 1.0f));
}

TEST(UpdateEncoder, AGroupHasADecayOfItsOwn) {
  OptimizerConfig sgd;
  sgd.mutable_sgd();
  ParameterGroup* others = sgd.add_groups();
  others->set_match("v*");
  others->set_weight_decay(3);
  ParameterGroup* group = sgd.add_groups();
  group->set_match("w");
  group->set_weight_decay(1);
  EXPECT_EQ(Encoded(sgd, true), std::vector<float>(4, 3.0f));
  EXPECT_EQ(Encoded(sgd, false), std::vector<float>(4, 3.0f));
  group->set_weight_decay(0);
  EXPECT_EQ(Encoded(sgd, true), std::vector<float>(4, 1.0f));
}

// Most rows of a table's gradient are zero. They are not sent, and decay does not fill them.
TEST(UpdateEncoder, SendsOnlyWhatASparseParameterHas) {
  Config config;
  config.mutable_optimizer()->mutable_sgd();
  config.mutable_compression()->mutable_push()->mutable_none();
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("table.weight");
  parameter->add_shape(1000);
  parameter->add_shape(4);
  parameter->set_decay(true);
  parameter->set_sparse(true);
  Placement placement;
  placement.add_slices()->set_count(4000);
  const auto encoder = UpdateEncoder::Create(config, model, placement, 0);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  std::vector<float> gradient(4000);
  gradient[40] = 1;
  const std::vector<float> weights(4000, 2.0f);
  std::vector<EncodedSlice> slices;
  (*encoder)->Encode(0, gradient, weights, 0.5, 1, &slices);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].codec, CODEC_TOPK);
  EXPECT_LT(slices[0].payload.size(), 32u);
  gradient.assign(4000, 1);
  slices.clear();
  (*encoder)->Encode(0, gradient, weights, 0.5, 2, &slices);
  EXPECT_EQ(slices[0].codec, CODEC_NONE);
  EXPECT_EQ(slices[0].payload.size(), 16000u);
}

// Rows make the payloads of the whole gradient, where slices cut rows apart as well, and through
// codecs, which have residuals.
TEST(UpdateEncoder, RowsAreTheSameAsTheWholeGradient) {
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("table.weight");
  parameter->add_shape(1000);
  parameter->add_shape(4);
  parameter->set_decay(true);
  Placement placement;
  for (const uint32_t count : {1002, 1998, 1000}) {
    const int slices = placement.slices_size();
    const uint64_t offset =
        slices == 0 ? 0
                    : placement.slices(slices - 1).offset() + placement.slices(slices - 1).count();
    placement.add_slices()->set_count(count);
    placement.mutable_slices(slices)->set_offset(offset);
  }
  std::vector<float> gradient(4000);
  const std::vector<int64_t> rows = {0, 249, 250, 251, 600, 999};
  std::vector<float> values;
  for (const int64_t row : rows) {
    for (int column = 0; column < 4; ++column) {
      values.push_back(static_cast<float>(column) - static_cast<float>(row) / 1000);
      gradient[static_cast<size_t>(row * 4 + column)] = values.back();
    }
  }
  const std::vector<float> weights(4000, 2.0f);
  for (const bool sparse : {true, false}) {
    for (const bool codec : {false, true}) {
      parameter->set_sparse(sparse);
      Config config;
      config.mutable_optimizer()->mutable_sgd();
      config.mutable_compression()->set_dense_below(0);
      if (codec) {
        config.mutable_compression()->set_error_feedback(true);
        config.mutable_compression()->mutable_push()->mutable_topk()->set_density(0.002);
      } else {
        config.mutable_compression()->mutable_push()->mutable_none();
      }
      const auto whole = UpdateEncoder::Create(config, model, placement, 0).value();
      const auto by_row = UpdateEncoder::Create(config, model, placement, 0).value();
      for (uint64_t step = 1; step <= 2; ++step) {
        std::vector<EncodedSlice> a, b;
        whole->Encode(0, gradient, weights, 0.5, step, &a);
        by_row->Encode(0, SparseRows{rows, 4, values}, weights, 0.5, step, &b);
        ASSERT_EQ(a.size(), 3u);
        ASSERT_EQ(b.size(), 3u);
        for (size_t i = 0; i < 3; ++i) {
          EXPECT_EQ(a[i].slice, b[i].slice);
          EXPECT_EQ(a[i].codec, b[i].codec);
          EXPECT_TRUE(std::ranges::equal(a[i].payload.span(), b[i].payload.span())) << i;
        }
      }
      EXPECT_EQ(*whole->ResidualNorm(), *by_row->ResidualNorm());
    }
  }
}

// A checkpoint keeps the momentum and the residual of dgc.
TEST(UpdateEncoder, RestoresWhatCodecsRemember) {
  Config config;
  config.mutable_compression()->set_dense_below(0);
  config.mutable_compression()->mutable_push()->mutable_dgc()->set_density(0.1);
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(50);
  parameter->add_shape(4);
  Placement placement;
  placement.add_slices()->set_count(120);
  placement.add_slices()->set_offset(120);
  placement.mutable_slices(1)->set_count(80);
  std::vector<float> gradient(200);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 23) - 11;
  const auto make = [&] { return UpdateEncoder::Create(config, model, placement, 0).value(); };
  const auto step = [&](UpdateEncoder& encoder, uint64_t clock) {
    std::vector<EncodedSlice> slices;
    encoder.Encode(0, gradient, gradient, 0, clock, &slices);
    return slices;
  };
  const auto first = make(), second = make();
  for (uint64_t clock = 1; clock < 4; ++clock) step(*first, clock);
  std::map<uint32_t, Bytes> saved = Saved(*first);
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved.at(1).size(), (2 * 80 + 1) * sizeof(float));
  ASSERT_TRUE(second->RestoreResiduals(saved).ok());
  EXPECT_EQ(*second->ResidualNorm(), *first->ResidualNorm());
  EXPECT_GT(*first->ResidualNorm(), 0);
  const auto a = step(*first, 4), b = step(*second, 4), fresh = step(*make(), 4);
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(a[s].codec, CODEC_DGC);
    EXPECT_TRUE(std::ranges::equal(a[s].payload.span(), b[s].payload.span()));
    EXPECT_FALSE(std::ranges::equal(a[s].payload.span(), fresh[s].payload.span()));
  }
  saved[0] = Bytes::CopyOf(AsBytes(gradient));  // 200 values are not whole arrays of 120
  EXPECT_TRUE(absl::IsDataLoss(second->RestoreResiduals(saved).status()));
}

// Payloads are packed where that makes them shorter. Residuals are the same as without packing.
TEST(UpdateEncoder, PacksWhatCodecsMade) {
  Config config;
  config.mutable_optimizer()->mutable_sgd();
  config.mutable_compression()->mutable_push()->mutable_int8();
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(4000);
  Placement placement;
  placement.add_slices()->set_count(3900);
  placement.add_slices()->set_offset(3900);
  placement.mutable_slices(1)->set_count(100);
  const auto plain = UpdateEncoder::Create(config, model, placement, 0).value();
  config.mutable_compression()->mutable_lossless()->mutable_zstd();
  const auto packing = UpdateEncoder::Create(config, model, placement, 0).value();
  std::vector<float> gradient(4000);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = std::pow(std::sin(static_cast<float>(i)), 5.0f);
  }
  for (uint64_t clock = 1; clock < 3; ++clock) {
    std::vector<EncodedSlice> expected, made;
    plain->Encode(0, gradient, gradient, 0, clock, &expected);
    packing->Encode(0, gradient, gradient, 0, clock, &made);
    ASSERT_EQ(made.size(), 2u);
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_TRUE(std::ranges::equal(made[s].payload.span(), expected[s].payload.span()));
      EXPECT_EQ(expected[s].packed.planes, 0u);
    }
    EXPECT_EQ(made[0].packed.planes, 1u);
    EXPECT_LT(made[0].travels().size(), made[0].payload.size());
    EXPECT_EQ(made[1].travels().data(), made[1].payload.data()) << "too short to be packed";
    const auto unpacked = Unpack(made[0].travels(), made[0].packed.planes, made[0].payload.size());
    ASSERT_TRUE(unpacked.ok()) << unpacked.status();
    EXPECT_TRUE(std::ranges::equal(unpacked->span(), made[0].payload.span()));
  }
  EXPECT_EQ(*packing->ResidualNorm(), *plain->ResidualNorm());
  const auto flushed = packing->Flush().value();
  ASSERT_EQ(flushed.size(), 2u);
  EXPECT_NE(flushed[0].encoded.packed.planes, 0u);
}

// For a value that is not finite some codecs would send 65504 or a sign, and keep the rest in the
// residual forever.
TEST(UpdateEncoder, SendsWhatIsNotFiniteAsItIsAndRemembersNothingOfIt) {
  const std::vector<float> good = {3, -1, 2, 0.5f, 8, -4, 1, 0.25f};
  const auto device = codec_test::MakeEmulatedCodecs(/*backwards=*/false);
  std::vector<std::pair<CodecConfig, DeviceCodecs*>> cases;
  for (const CodecConfig& codec : DefaultCodecs()) {
    cases.emplace_back(codec, nullptr);
    cases.emplace_back(codec, device.get());
  }
  for (const auto& [codec, where] : cases) {
    Config config;
    config.mutable_compression()->set_dense_below(0);
    *config.mutable_compression()->mutable_push() = codec;
    ModelSpec model;
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name("w");
    parameter->add_shape(8);
    Placement placement;
    placement.add_slices()->set_count(8);
    const std::vector<DeviceCodecs*> devices = {where};
    const auto poisoned = UpdateEncoder::Create(config, model, placement, 0, {}, devices).value();
    const auto clean = UpdateEncoder::Create(config, model, placement, 0, {}, devices).value();
    EncodeStep(*poisoned, good, 1);
    EncodeStep(*clean, good, 1);
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      std::vector<float> gradient = good;
      gradient[3] = bad;
      const EncodedSlice sent = EncodeStep(*poisoned, gradient, 2);
      EXPECT_EQ(sent.codec, CODEC_NONE);
      EXPECT_TRUE(std::ranges::equal(sent.payload.span(), AsBytes(gradient)));
    }
    const Bytes after = EncodeStep(*poisoned, good, 3).payload,
                expected = EncodeStep(*clean, good, 3).payload;
    EXPECT_TRUE(std::ranges::equal(after.span(), expected.span())) << CodecText(codec);
  }
}

// A device's payloads and residuals equal the host's, slice by slice. Codecs without a device twin,
// and slices sent whole, stay on the host.
TEST(UpdateEncoder, EncodesOnADeviceWhatHasATwinThere) {
  Config config;
  config.mutable_optimizer()->mutable_sgd();
  config.mutable_compression()->set_error_feedback(true);
  config.mutable_compression()->set_residual_decay(0.5);
  config.mutable_compression()->set_dense_below(64);
  config.mutable_compression()->mutable_lossless()->mutable_zstd();
  config.mutable_compression()->mutable_push()->mutable_topk()->set_density(0.1);
  CompressionRule* rule = config.mutable_compression()->add_rules();
  rule->set_match("matrix");
  rule->mutable_push()->mutable_none();
  ModelSpec model;
  for (const char* name : {"w", "bias", "matrix"}) {
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name(name);
    parameter->add_shape(name == std::string("bias") ? 1 : 50);
    parameter->add_shape(4);
    parameter->set_decay(true);
  }
  Placement placement;
  for (const auto& [parameter, offset, count] :
       {std::tuple{0, 0, 120}, {0, 120, 80}, {1, 0, 4}, {2, 0, 200}}) {
    SliceSpec* slice = placement.add_slices();
    slice->set_parameter(parameter);
    slice->set_offset(offset);
    slice->set_count(count);
  }
  const auto device = codec_test::MakeEmulatedCodecs(false);
  const std::vector<DeviceCodecs*> devices(3, device.get());
  const auto there = UpdateEncoder::Create(config, model, placement, 3, {}, devices).value();
  const auto here = UpdateEncoder::Create(config, model, placement, 3).value();
  EXPECT_EQ(there->on_device(), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(here->on_device(), std::vector<bool>(3));
  std::vector<float> gradient(200), weights(200);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(i * 7 % 23) - 11;
    weights[i] = static_cast<float>(i % 5);
  }
  const auto step = [&](uint64_t clock) {
    std::vector<EncodedSlice> expected, made;
    here->Encode(0, gradient, weights, 0.25, clock, &expected);
    EXPECT_TRUE(there->Start(0, {gradient.data(), weights.data(), nullptr}, 0.25, clock).ok());
    EXPECT_TRUE(there->Finish(0, &made).ok());
    ASSERT_EQ(made.size(), 2u);
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(made[s].slice, expected[s].slice);
      EXPECT_EQ(made[s].codec, CODEC_TOPK);
      EXPECT_TRUE(std::ranges::equal(made[s].payload.span(), expected[s].payload.span()));
      EXPECT_TRUE(std::ranges::equal(made[s].travels().span(), expected[s].travels().span()));
    }
  };
  for (uint64_t clock = 1; clock < 4; ++clock) step(clock);
  EXPECT_DOUBLE_EQ(*there->ResidualNorm(), *here->ResidualNorm());
  // A checkpoint of the host's residuals resumes on the device.
  const std::map<uint32_t, Bytes> saved = Saved(*here), saved_there = Saved(*there);
  ASSERT_EQ(saved.size(), saved_there.size());
  for (const auto& [slice, state] : saved) {
    EXPECT_TRUE(std::ranges::equal(state.span(), saved_there.at(slice).span()));
  }
  ASSERT_TRUE(here->RestoreResiduals({}).ok());
  ASSERT_TRUE(there->RestoreResiduals(saved).ok());
  // What weights moved by is encoded there as the host's difference.
  std::vector<float> moved(weights), difference(weights.size());
  for (size_t i = 0; i < moved.size(); ++i) {
    moved[i] += 0.1f * gradient[i];
    difference[i] = weights[i] - moved[i];
  }
  std::vector<EncodedSlice> expected, made;
  here->Encode(0, difference, {}, 0, 9, &expected);
  ASSERT_TRUE(there->Start(0, DeviceDifference{weights.data(), moved.data(), nullptr}, 9).ok());
  ASSERT_TRUE(there->Finish(0, &made).ok());
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_TRUE(std::ranges::equal(made[s].payload.span(), expected[s].payload.span()));
  }
  EXPECT_EQ(there->why_on_host()[0], "");
  EXPECT_THAT(there->why_on_host()[1], testing::HasSubstr("(none)"));
  step(4);
}

}  // namespace
}  // namespace psgd
