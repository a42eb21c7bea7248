// Pulls of changes, from the shard's answers to the worker's weights.
#include "server/shard/weights_encoder.h"

#include <algorithm>
#include <cmath>

#include "tests/unit/server/shard/shard_fixture.h"
#include "worker/install_slice.h"

namespace psgd {
namespace {

constexpr uint32_t kElements = 200;

Config DeltaConfig(const std::string& codec = "") {
  Config config;
  config.mutable_compression()->set_dense_below(0);
  DeltaPull* delta = config.mutable_compression()->mutable_pull()->mutable_delta();
  if (codec == "topk") delta->mutable_codec()->mutable_topk()->set_density(0.1);
  if (codec == "onebit") delta->mutable_codec()->mutable_onebit();
  if (codec == "ternary") delta->mutable_codec()->mutable_ternary();
  return config;
}

// The payload of the `count` elements that are not zero.
Bytes TopkOf(const std::vector<float>& gradient, size_t count) {
  CodecConfig topk;
  topk.mutable_topk()->set_density(static_cast<double>(count) / kElements);
  EncodeInput input;
  input.gradient = gradient;
  std::vector<std::byte> payload;
  (*MakeCodec(topk))->NewEncoder({})->Encode(input, &payload);
  return Bytes::Adopt(std::move(payload));
}

// A worker that has two slices, and installs the replies that it gets.
class Puller {
 public:
  explicit Puller(ShardFixture* shard) : shard_(shard) {}
  // The shard was restarted.
  void Meets(ShardFixture* shard) { shard_ = shard; }

  PullReply Pull(bool lose_the_reply = false) {
    Message pull = ShardFixture::PullOf(worker, ++request_, clock);
    for (uint64_t mark : marks_) pull.header.mutable_pull()->add_marks(mark);
    const auto out = shard_->Send(std::move(pull));
    EXPECT_EQ(out.size(), 1u);
    const Message& message = out[0].message;
    const PullReply& reply = message.header.pull_reply();
    payload_bytes = message.PayloadBytes();
    if (lose_the_reply) return reply;
    for (int p = 0; p < reply.parts_size(); ++p) {
      const PullPart& part = reply.parts(p);
      weights[p].resize(kElements);
      const PulledSlice pulled = {part.codec(), part.version(),      part.form(),
                                  part.mark(),  message.payloads[p], part.zstd()};
      EXPECT_TRUE(InstallSlice(codecs_, {kElements, kElements, 1, 0}, pulled, weights[p]).ok());
      marks_[p] = part.mark();
    }
    return reply;
  }

  uint32_t worker = 0;
  uint64_t clock = 0;
  std::vector<float> weights[2];
  size_t payload_bytes = 0;

 private:
  ShardFixture* shard_;
  const CodecTable codecs_;
  uint64_t request_ = 0;
  std::vector<uint64_t> marks_ = {0, 0};
};

class Delta : public ::testing::Test {
 protected:
  void Start(const std::string& codec, int64_t staleness = 4) {
    shard_ = std::make_unique<ShardFixture>(
        FixtureOptions{.staleness = staleness, .elements = {kElements, kElements}},
        DeltaConfig(codec));
    shard_->Start(2);
  }

  // A push of worker 1: some elements of slice 0.
  void PushSome(const std::vector<uint32_t>& indices) {
    std::vector<float> gradient(kElements);
    for (uint32_t index : indices) gradient[index] = static_cast<float>(index + 1);
    ++seq_;
    Message push = ShardFixture::PushOf(1, seq_, seq_, {{0, {}}});
    push.header.mutable_push()->mutable_parts(0)->set_codec(CODEC_TOPK);
    push.payloads[0] = TopkOf(gradient, indices.size());
    shard_->Acknowledged(std::move(push));
  }
  void PushAll() {
    std::vector<float> gradient(kElements);
    for (uint32_t i = 0; i < kElements; ++i) gradient[i] = static_cast<float>(i % 7) + 0.5f;
    ++seq_;
    shard_->Acknowledged(ShardFixture::PushOf(1, seq_, seq_, {{0, gradient}}));
  }

  std::vector<float> Weights() {
    const Bytes bytes = shard_->core().ShareWeights()[0].second;
    const auto values = Floats(bytes);
    return {values.begin(), values.end()};
  }

  std::unique_ptr<ShardFixture> shard_;
  uint64_t seq_ = 0;
};

// Whatever the codec of the others: a frozen layer travels once.
TEST_F(Delta, OfASliceThatDidNotChangeNothingTravels) {
  for (const bool packs : {false, true}) {
    for (const char* codec : {"none", "fp16", "int8"}) {
      Config config;
      config.mutable_compression()->set_dense_below(0);
      PullCodecConfig* pull = config.mutable_compression()->mutable_pull();
      if (codec == std::string("fp16")) pull->mutable_fp16();
      if (codec == std::string("int8")) pull->mutable_int8();
      if (packs) config.mutable_compression()->mutable_lossless()->mutable_zstd();
      shard_ = std::make_unique<ShardFixture>(
          FixtureOptions{.staleness = 4, .elements = {kElements, kElements}}, config);
      shard_->Start(2);
      seq_ = 0;
      Puller puller(shard_.get()), late(shard_.get());
      late.worker = 1;
      puller.Pull();
      for (int i = 0; i < 3; ++i) {
        PushAll();
        const PullReply reply = puller.Pull();
        EXPECT_EQ(reply.parts(0).form(), PullPart::WHOLE) << codec;
        EXPECT_EQ(reply.parts(1).form(), PullPart::CHANGED) << codec;
        const std::vector<float> weights = puller.weights[0];
        EXPECT_EQ(puller.Pull().parts(0).form(), PullPart::CHANGED) << codec;
        EXPECT_LT(puller.payload_bytes, 40u) << codec;
        EXPECT_EQ(puller.weights[0], weights) << codec;
        EXPECT_EQ(puller.weights[1], std::vector<float>(kElements)) << codec;
        if (i == 1) {
          EXPECT_EQ(late.Pull().parts(1).form(), PullPart::WHOLE) << codec;
        }
      }
      if (codec == std::string("none")) {
        EXPECT_EQ(puller.weights[0], Weights());
      }
      late.Pull();
      EXPECT_EQ(late.weights[0], puller.weights[0]) << codec;
    }
  }
}

// A server that starts again may have forgotten steps, and have other weights of the same version.
TEST_F(Delta, AfterAStartOfTheServerTheNextPullIsWhole) {
  const auto encode = [](WeightsEncoder& encoder, uint64_t mark) {
    BufferPool pool(1 << 20);
    SliceState slice;
    slice.weights = CowArray(&pool, kElements);
    slice.version = 3;
    PullPart part;
    SentWeights sent;
    (void)encoder.Encode(slice, 1, mark, &sent, &part);
    return part;
  };
  WeightsEncoder encoder(Config(), /*starts=*/1);
  const uint64_t mark = encode(encoder, 0).mark();
  EXPECT_EQ(encode(encoder, mark).form(), PullPart::CHANGED);
  encoder.BeginLife(2);
  EXPECT_EQ(encode(encoder, mark).form(), PullPart::WHOLE);
}

// 1 % of a bias would be one element per pull.
TEST_F(Delta, SmallTensorsTravelWholeWhateverTheCodec) {
  Config config = DeltaConfig("topk");
  config.mutable_compression()->set_dense_below(kElements * sizeof(float) + 1);
  shard_ = std::make_unique<ShardFixture>(
      FixtureOptions{.staleness = 4, .elements = {kElements, kElements}}, config);
  shard_->Start(2);
  Puller puller(shard_.get());
  puller.Pull();
  PushAll();
  const PullReply reply = puller.Pull();
  EXPECT_EQ(reply.parts(0).form(), PullPart::WHOLE);
  EXPECT_EQ(reply.parts(0).codec(), CODEC_NONE);
  EXPECT_EQ(puller.weights[0], Weights());
}

TEST_F(Delta, TheFirstPullIsWholeAndLaterOnesAreWhatChanged) {
  Start("");
  Puller puller(shard_.get());
  EXPECT_EQ(puller.Pull().parts(0).form(), PullPart::WHOLE);
  PushSome({3, 190});
  PushSome({4});
  const PullReply reply = puller.Pull();
  EXPECT_EQ(reply.parts(0).form(), PullPart::CHANGED);
  EXPECT_EQ(reply.parts(1).form(), PullPart::CHANGED);  // nothing changed
  EXPECT_LT(puller.payload_bytes, 60u);
  EXPECT_EQ(puller.weights[0], Weights());
  EXPECT_EQ(puller.weights[0][190], -191);
}

TEST_F(Delta, WorkersThatHoldDifferentVersionsEachGetWhatTheyLack) {
  Start("");
  Puller early(shard_.get()), late(shard_.get());
  late.worker = 1;
  early.Pull();
  PushSome({1});
  late.Pull();
  PushSome({2});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(early.Pull().parts(0).form(), PullPart::CHANGED);
    EXPECT_EQ(late.Pull().parts(0).form(), PullPart::CHANGED);
    EXPECT_EQ(early.weights[0], Weights());
    EXPECT_EQ(late.weights[0], Weights());
    PushSome({1, 7});
  }
}

// Worker 0 holds version 2. The shard came back with version 1, and other steps made a version 3.
TEST_F(Delta, WhatChangedSinceWeightsOfAnEarlierLifeIsUnknown) {
  Start("");
  Puller puller(shard_.get());
  puller.Pull();
  PushSome({1});
  PushSome({2});
  puller.Pull();
  const std::vector<float> lost = puller.weights[0];
  Start("");
  seq_ = 0;
  PushSome({1});
  shard_->core().BeginLife(2);
  puller.Meets(shard_.get());
  PushSome({3});
  PushSome({4});
  EXPECT_EQ(puller.Pull().parts(0).form(), PullPart::WHOLE);
  EXPECT_NE(puller.weights[0][2], lost[2]);
  EXPECT_EQ(puller.weights[0], Weights());
  PushSome({5});
  EXPECT_EQ(puller.Pull().parts(0).form(), PullPart::CHANGED);
  EXPECT_EQ(puller.weights[0], Weights());
}

TEST_F(Delta, ADenseUpdateMakesTheNextPullWhole) {
  Start("");
  Puller puller(shard_.get());
  puller.Pull();
  PushAll();
  EXPECT_EQ(puller.Pull().parts(0).form(), PullPart::WHOLE);
  EXPECT_EQ(puller.weights[0], Weights());
}

TEST_F(Delta, SparseUpdatesOfAClockAreAddedUp) {
  Start("", 0);
  Puller puller(shard_.get());
  puller.Pull();
  for (uint32_t worker : {1u, 0u}) {
    std::vector<float> gradient(kElements);
    gradient[5] = 2;
    gradient[6 + worker] = 1;
    Message push = ShardFixture::PushOf(worker, 1, 1, {{0, {}}});
    push.header.mutable_push()->mutable_parts(0)->set_codec(CODEC_TOPK);
    push.payloads[0] = TopkOf(gradient, 2);
    shard_->Acknowledged(std::move(push));
  }
  EXPECT_EQ(puller.Pull().parts(0).form(), PullPart::CHANGED);
  EXPECT_EQ(puller.weights[0][5], -4);
  EXPECT_EQ(puller.weights[0][6], -1);
  EXPECT_EQ(puller.weights[0][7], -1);
  EXPECT_EQ(puller.weights[0], Weights());
}

TEST_F(Delta, ALossyOneCatchesUpWhenNothingChangesAnyMore) {
  for (const char* codec : {"topk", "onebit", "ternary"}) {
    Start(codec, /*staleness=*/100);
    seq_ = 0;
    Puller puller(shard_.get());
    EXPECT_EQ(puller.Pull().parts(0).form(), PullPart::WHOLE);
    PushAll();
    double first = 0, last = 0;
    for (int i = 0; i < 60; ++i) {
      ++puller.clock;
      EXPECT_EQ(puller.Pull().parts(0).form(), PullPart::DIFFERENCE) << codec;
      const std::vector<float> weights = Weights();
      last = 0;
      for (uint32_t e = 0; e < kElements; ++e) {
        last += std::abs(weights[e] - puller.weights[0][e]);
      }
      if (i == 0) first = last;
    }
    EXPECT_GT(first, 1) << codec;
    EXPECT_LT(last, 0.01 * first) << codec;
  }
}

// A worker that also evaluates asks once more than others, and computes with the same weights.
TEST_F(Delta, AskingAgainBeforeTheNextStepChangesNothing) {
  for (const char* codec : {"topk", "onebit", "ternary"}) {
    Start(codec);
    seq_ = 0;
    Puller often(shard_.get()), once(shard_.get());
    once.worker = 1;
    for (uint64_t clock : {0, 1, 2, 3}) {
      often.clock = once.clock = clock;
      for (int i = 0; i < 3; ++i) {
        const PullReply reply = often.Pull();
        EXPECT_EQ(reply.parts(0).form() == PullPart::WHOLE, clock == 0 && i == 0) << codec;
        if (i > 0) {
          EXPECT_EQ(often.payload_bytes, 16u) << "two headers";
        }
      }
      once.Pull();
      EXPECT_EQ(often.weights[0], once.weights[0]) << codec;
      if (clock > 0) {
        EXPECT_NE(once.weights[0], Weights()) << codec;
      }
      PushAll();
    }
  }
}

// Otherwise the server's idea of the worker's weights would be wrong for ever.
TEST_F(Delta, ALostDifferenceMakesTheNextOneWhole) {
  Start("topk");
  Puller puller(shard_.get());
  puller.Pull();
  PushAll();
  puller.Pull(/*lose_the_reply=*/true);
  EXPECT_EQ(puller.Pull().parts(0).form(), PullPart::WHOLE);
  EXPECT_EQ(puller.weights[0], Weights());
}

TEST_F(Delta, AWorkerThatComesAgainBeginsAnew) {
  Start("topk");
  Puller puller(shard_.get());
  puller.Pull();
  shard_->Remove(0);
  shard_->Admit(0, 2);
  Message pull = ShardFixture::Header(0, 2);
  pull.header.mutable_pull()->set_request(9);
  pull.header.mutable_pull()->add_marks(1);
  pull.header.mutable_pull()->add_marks(2);
  const auto out = shard_->Send(std::move(pull));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message.header.pull_reply().parts(0).form(), PullPart::WHOLE);
}

TEST_F(Delta, AsManyMarksAsSlicesOrNone) {
  Start("");
  Message pull = ShardFixture::PullOf(0, 1, 0);
  pull.header.mutable_pull()->add_marks(1);
  const auto out = shard_->Send(std::move(pull));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message.header.refusal().reason(), Refusal::MALFORMED);
  EXPECT_EQ(out[0].message.header.refusal().detail(), "1 marks for 2 slices");
}

struct WholePull {
  const char* name;
  CodecId id;
  size_t bytes;  // payload of kElements
  double error;  // share of the largest weight
};

Config WholeConfig(const std::string& name) {
  Config config;
  PullCodecConfig* pull = config.mutable_compression()->mutable_pull();
  if (name == "fp16") pull->mutable_fp16();
  if (name == "bf16") pull->mutable_bf16();
  if (name == "int8") pull->mutable_int8()->set_block(64);
  config.mutable_compression()->set_dense_below(100);
  return config;
}

class Whole : public testing::TestWithParam<WholePull> {};

// The bytes equal those of the scalar loops: a shard with other vector widths sends the same.
TEST_P(Whole, TravelsInItsCodecAndIsTheSameForAllWorkers) {
  const Config config = WholeConfig(GetParam().name);
  ShardFixture shard({.staleness = 4, .elements = {kElements, kElements}}, config);
  shard.Start(3);
  std::vector<float> gradient(kElements);
  for (uint32_t i = 0; i < kElements; ++i) gradient[i] = std::sin(static_cast<float>(i));
  shard.Acknowledged(ShardFixture::PushOf(2, 1, 1, {{0, gradient}, {1, gradient}}));
  const std::vector<float> weights = shard.Weights(0);
  Puller first(&shard), second(&shard);
  second.worker = 1;
  const PullReply reply = first.Pull();
  EXPECT_EQ(reply.parts(0).codec(), GetParam().id);
  EXPECT_EQ(reply.parts(0).form(), PullPart::WHOLE);
  EXPECT_EQ(first.payload_bytes, 2 * GetParam().bytes);
  second.Pull();
  EXPECT_EQ(first.weights[0], second.weights[0]);
  for (uint32_t i = 0; i < kElements; ++i) {
    EXPECT_NEAR(first.weights[0][i], weights[i], GetParam().error) << i;
  }

  CodecConfig codec;
  const PullCodecConfig& pull = config.compression().pull();
  if (pull.has_fp16()) codec.mutable_fp16();
  if (pull.has_bf16()) codec.mutable_bf16();
  if (pull.has_int8()) *codec.mutable_int8() = pull.int8();
  const auto scalar = MakeCodec(codec, {.backend = CodecBackend::kScalar}).value();
  EncodeInput input;
  input.gradient = weights;
  input.key = MakeKey(config.seed(), RandomPurpose::kWeights, 0);
  input.step = reply.parts(0).version();
  std::vector<std::byte> payload;
  scalar->NewEncoder({})->Encode(input, &payload);
  std::vector<float> expected(kElements);
  const SliceShape shape = {kElements, kElements, 1, 0};
  scalar->Open(payload, shape).value()->AddBlock(1, expected);
  EXPECT_EQ(first.weights[0], expected);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Whole,
                         testing::Values(WholePull{"fp16", CODEC_FP16, 400, 0.0005},
                                         WholePull{"bf16", CODEC_BF16, 400, 0.004},
                                         WholePull{"int8", CODEC_INT8, 4 + 4 * 2 + 200, 0.0081}),
                         [](const auto& whole) { return std::string(whole.param.name); });

// A bias would share no scale with other tensors, and costs little without a codec.
TEST(WholeInt8, SmallTensorsTravelAsTheyAre) {
  ShardFixture shard({.staleness = 4, .elements = {24, 25}}, WholeConfig("int8"));
  shard.Start(1);
  const auto out = shard.Send(ShardFixture::PullOf(0, 1, 0));
  const PullReply& reply = out[0].message.header.pull_reply();
  EXPECT_EQ(reply.parts(0).codec(), CODEC_NONE);
  EXPECT_EQ(reply.parts(1).codec(), CODEC_INT8);
}

TEST(InstallSlice, RefusesWhatItCannotBelieve) {
  const CodecTable codecs;
  std::vector<float> weights(4);
  const SliceShape shape = {4, 4, 1, 0};
  const Bytes four = BytesOf({1, 2, 3, 4});
  EXPECT_TRUE(absl::IsDataLoss(InstallSlice(
      codecs, shape, {static_cast<CodecId>(99), 1, PullPart::WHOLE, 0, four}, weights)));
  EXPECT_TRUE(absl::IsDataLoss(
      InstallSlice(codecs, shape, {CODEC_NONE, 1, PullPart::CHANGED, 0, four}, weights)));
  EXPECT_FALSE(
      InstallSlice(codecs, shape, {CODEC_TOPK, 1, PullPart::CHANGED, 0, four}, weights).ok());
  EXPECT_EQ(weights, std::vector<float>(4));
  EXPECT_TRUE(
      InstallSlice(codecs, shape, {CODEC_NONE, 1, PullPart::DIFFERENCE, 0, four}, weights).ok());
  EXPECT_TRUE(
      InstallSlice(codecs, shape, {CODEC_NONE, 1, PullPart::DIFFERENCE, 0, four}, weights).ok());
  EXPECT_EQ(weights, (std::vector<float>{2, 4, 6, 8}));
}

}  // namespace
}  // namespace psgd
