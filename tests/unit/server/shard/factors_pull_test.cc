// Pulls of updates that came as factors: the worker makes the same updates, with the shard's bits.
#include "tests/unit/server/shard/factors_fixture.h"
#include "worker/install_slice.h"

namespace psgd {
namespace {

class FactorsPull : public FactorsShard {
 protected:
  void StartDelta(int64_t staleness, double weight_decay = 0, bool pack = false) {
    Config config;
    if (pack) config.mutable_compression()->mutable_lossless()->mutable_zstd();
    config.mutable_compression()->mutable_pull()->mutable_delta();
    Start(staleness, config, weight_decay);
    weights_ = {std::vector<float>(kRows * kColumns, -1.0f), std::vector<float>(4, -1.0f)};
    marks_.assign(3, 0);
  }

  // Pulls as worker 0 and installs the weights. Returns the parts.
  PullReply Pull(const std::vector<uint32_t>& slices = {}, bool lose_the_reply = false) {
    Message pull = ShardFixture::PullOf(0, ++request_, 0);
    for (uint32_t slice : slices) pull.header.mutable_pull()->add_slices(slice);
    for (uint64_t mark : marks_) pull.header.mutable_pull()->add_marks(mark);
    if (!slices.empty()) pull.header.mutable_pull()->mutable_marks()->Truncate(slices.size());
    const auto out = shard_->Send(std::move(pull));
    EXPECT_EQ(out.size(), 1u);
    const Message& message = out[0].message;
    payload_bytes_ = message.PayloadBytes();
    const PullReply& reply = message.header.pull_reply();
    if (lose_the_reply || !slices.empty()) return reply;
    std::vector<PulledSlice> pulled;
    size_t payloads = 0;
    for (const PullPart& part : reply.parts()) {
      if (!part.with_previous()) ++payloads;
      pulled.push_back({part.codec(), part.version(), part.form(), part.mark(),
                        message.payloads.at(payloads - 1), part.zstd()});
      marks_[part.slice()] = part.mark();
    }
    EXPECT_EQ(payloads, message.payloads.size());
    // A worker with a GPU computes with its own weights meanwhile.
    std::vector<std::vector<float>> ahead = {std::vector<float>(kRows * kColumns, 7.0f),
                                             std::vector<float>(4, 7.0f)};
    const auto of = [](auto& weights) {
      return [&](int parameter) { return std::span<float>(weights[parameter]); };
    };
    for (auto* to : {&ahead, &weights_}) {
      const absl::Status installed = InstallPulled(
          pulled, PullInstaller(codecs_, *model_, *placement_, pushed_, of(weights_), of(*to)));
      EXPECT_TRUE(installed.ok()) << installed;
    }
    EXPECT_EQ(ahead, weights_);
    EXPECT_EQ(weights_[0], Weights());
    EXPECT_EQ(weights_[1], shard_->Weights(2));
    return reply;
  }

  // A push of worker 0.
  void PushOwn(uint64_t clock, const FactorsOf& factors) {
    Message message = PushOf(0, clock, factors);
    pushed_.Keep(0, clock, message.payloads[0]);
    shard_->Acknowledged(std::move(message));
  }

  const CodecTable codecs_;
  PushedFactors pushed_;
  std::vector<std::vector<float>> weights_;
  std::vector<uint64_t> marks_;
  uint64_t request_ = 0;
  size_t payload_bytes_ = 0;
};

TEST_F(FactorsPull, TheFirstIsWholeAndLaterOnesAreUpdates) {
  StartDelta(4);
  EXPECT_EQ(Pull().parts(0).form(), PullPart::WHOLE);
  shard_->Acknowledged(PushOf(1, 1, Factors(1)));
  const PullReply reply = Pull();
  EXPECT_EQ(reply.parts(0).form(), PullPart::UPDATES);
  EXPECT_EQ(reply.parts(1).form(), PullPart::UPDATES);
  EXPECT_TRUE(reply.parts(1).with_previous());
  EXPECT_EQ(reply.parts(2).form(), PullPart::CHANGED);  // nothing changed
  EXPECT_LT(payload_bytes_, kRows * kColumns * sizeof(float) / 3);
  shard_->Acknowledged(PushOf(1, 2, Factors(2)));
  shard_->Acknowledged(PushOf(1, 3, Factors(3)));
  EXPECT_EQ(Pull().parts(0).form(), PullPart::UPDATES);
  EXPECT_EQ(Pull().parts(0).form(), PullPart::CHANGED);  // nothing changed
}

// The life before may have had other updates, which the disk forgot.
TEST_F(FactorsPull, UpdatesOfAnEarlierLifeAreUnknown) {
  StartDelta(4);
  Pull();
  shard_->Acknowledged(PushOf(1, 1, Factors(1)));
  shard_->core().BeginLife(2);
  EXPECT_EQ(Pull().parts(0).form(), PullPart::WHOLE);
  shard_->Acknowledged(PushOf(1, 2, Factors(2)));
  EXPECT_EQ(Pull().parts(0).form(), PullPart::UPDATES);
}

TEST_F(FactorsPull, UpdatesMayComePacked) {
  StartDelta(4, 0, /*pack=*/true);
  Pull();
  const Message push = PushOf(1, 1, FactorsOf(9, kRows, kColumns, 1));
  shard_->Acknowledged(push);
  const PullReply reply = Pull();
  EXPECT_EQ(reply.parts(0).form(), PullPart::UPDATES);
  EXPECT_NE(reply.parts(0).zstd(), 0u);
  EXPECT_EQ(reply.parts(1).zstd(), reply.parts(0).zstd());
  EXPECT_LT(payload_bytes_, push.PayloadBytes());
}

TEST_F(FactorsPull, WithWeightDecayAndSumsOfWorkers) {
  StartDelta(0, 0.125);
  Pull();
  for (uint64_t clock = 1; clock <= 4; ++clock) {
    shard_->Acknowledged(PushOf(1, clock, Factors(clock)));
    const size_t one = PushOf(1, clock, Factors(clock)).PayloadBytes();
    PushOwn(clock, Factors(100 + clock));
    EXPECT_EQ(Pull().parts(0).form(), PullPart::UPDATES);
    EXPECT_LT(payload_bytes_, one + 100) << "the worker's own factors came back";
  }
}

// The mark of a lost reply never comes back.
TEST_F(FactorsPull, ALostReplyIsMadeUpFor) {
  StartDelta(4);
  Pull();
  shard_->Acknowledged(PushOf(1, 1, Factors(1)));
  EXPECT_EQ(Pull({}, /*lose_the_reply=*/true).parts(0).form(), PullPart::UPDATES);
  shard_->Acknowledged(PushOf(1, 2, Factors(2)));
  EXPECT_EQ(Pull().parts(0).form(), PullPart::UPDATES);
}

TEST_F(FactorsPull, WhatIsNoShorterComesWhole) {
  StartDelta(4);
  Pull();
  for (uint64_t clock = 1; clock <= 8; ++clock) {
    shard_->Acknowledged(PushOf(1, clock, Factors(clock)));
  }
  EXPECT_EQ(Pull().parts(0).form(), PullPart::WHOLE);
  shard_->Acknowledged(PushOf(1, 9, Factors(9)));
  EXPECT_EQ(Pull().parts(0).form(), PullPart::UPDATES);
}

TEST_F(FactorsPull, UpdatesOfAnotherKindBetweenThemMakeItWhole) {
  StartDelta(4);
  Pull();
  shard_->Acknowledged(PushOf(1, 1, Factors(1)));
  shard_->Acknowledged(ShardFixture::PushOf(1, 2, 2, {{0, std::vector<float>(kFirst, 0.5f)}}));
  shard_->Acknowledged(PushOf(1, 3, Factors(2)));
  const PullReply reply = Pull();
  EXPECT_EQ(reply.parts(0).form(), PullPart::WHOLE);
  EXPECT_EQ(reply.parts(1).form(), PullPart::WHOLE);
}

// A push of one slice has only that slice's rows, which do not serve the neighboring slice.
TEST_F(FactorsPull, FactorsOfOneSliceAreNotPassedOn) {
  StartDelta(4);
  Pull();
  Message message = ShardFixture::PushOf(1, 1, 1, {{1, {}}});
  message.header.mutable_push()->mutable_parts(0)->set_codec(CODEC_FACTORS);
  message.payloads[0] = Bytes::Adopt(Factors(1).Payload({shapes_[1]}));
  shard_->Acknowledged(std::move(message));
  EXPECT_EQ(Pull().parts(1).form(), PullPart::WHOLE);
}

TEST_F(FactorsPull, AskedForInPartTheyComeWhole) {
  StartDelta(4);
  Pull();
  shard_->Acknowledged(PushOf(1, 1, Factors(1)));
  EXPECT_EQ(Pull({0}).parts(0).form(), PullPart::WHOLE);
}

// A worker refuses one payload for slices that have nothing in common.
TEST_F(FactorsPull, OnePayloadIsOfOneCodecAndPacking) {
  StartDelta(4);
  const auto zeros = [](size_t count) { return Bytes::CopyOf(AsBytes(std::vector<float>(count))); };
  const PulledSlice update = {CODEC_FACTORS, 1, PullPart::UPDATES, 1, zeros(8)};
  const PulledSlice third = {CODEC_NONE, 1, PullPart::WHOLE, 1, zeros(4)};
  PulledSlice coded = update, packed = update;
  coded.codec = CODEC_NONE;
  packed.planes = 4;
  for (const std::vector<PulledSlice>& pulled :
       {std::vector<PulledSlice>{update, coded, third}, {update, packed, third}}) {
    const auto weights = [this](int parameter) { return std::span<float>(weights_[parameter]); };
    const absl::Status installed = InstallPulled(
        pulled, PullInstaller(codecs_, *model_, *placement_, pushed_, weights, weights));
    EXPECT_THAT(std::string(installed.message()), testing::HasSubstr("with one payload"));
  }
}

// A later incarnation of the worker does not have the pushes of the first incarnation.
TEST_F(FactorsPull, AWorkerThatCameBackGetsWhatItPushedBefore) {
  StartDelta(4);
  shard_->Acknowledged(PushOf(0, 1, Factors(1)));
  Pull();
  shard_->Acknowledged(PushOf(0, 2, Factors(2)));
  shard_->Admit(0, 2);
  shard_->Begin(1, 1000, {0, 1});
  Message pull = ShardFixture::PullOf(0, ++request_, 0, 2);
  for (uint64_t mark : marks_) pull.header.mutable_pull()->add_marks(mark);
  const auto out = shard_->Send(std::move(pull));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message.header.pull_reply().parts(0).form(), PullPart::UPDATES);
  EXPECT_GT(out[0].message.payloads[0].size(), PushOf(0, 2, Factors(2)).PayloadBytes());
}

}  // namespace
}  // namespace psgd
