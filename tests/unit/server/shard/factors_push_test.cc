// Pushes whose parts share a payload of factors.
#include <functional>
#include <limits>

#include "tests/unit/server/shard/factors_fixture.h"

namespace psgd {
namespace {

TEST_F(FactorsShard, TheirProductIsApplied) {
  Start(4);
  const FactorsOf factors = Factors(1);
  EXPECT_EQ(shard_->Acknowledged(PushOf(1, 1, factors)), 2u);
  std::vector<float> expected = factors.Product(MatrixShape(kRows, kColumns));
  for (float& value : expected) value = 0 - value;
  EXPECT_EQ(Weights(), expected);
  EXPECT_EQ(shard_->core().stats().refused.size(), 0u);
}

TEST_F(FactorsShard, AtStalenessZeroPushesOfAClockAreOneUpdate) {
  Start(0);
  const FactorsOf first = Factors(1), second = Factors(2);
  shard_->Acknowledged(PushOf(1, 1, second));
  EXPECT_EQ(Weights(), std::vector<float>(kRows * kColumns));
  shard_->Acknowledged(PushOf(0, 1, first));
  const std::vector<float> a = first.Product(MatrixShape(kRows, kColumns));
  const std::vector<float> b = second.Product(MatrixShape(kRows, kColumns));
  std::vector<float> expected;
  for (size_t i = 0; i < a.size(); ++i) expected.push_back(0 - (a[i] + b[i]));
  EXPECT_EQ(Weights(), expected);
}

// The result is the same however few payloads may be unpacked at a time, with and without factors.
TEST_F(FactorsShard, PushesThatAreOpenedInTurnAreTheSameUpdate) {
  constexpr uint32_t kWorkers = 5;
  const uint64_t one = WaitingOf(PushOf(0, 1, Factors(1))).UnpackedBytes();
  std::vector<std::vector<float>> weights;
  for (const uint64_t open : {uint64_t{kMostUnpacked}, uint64_t{1}, 2 * one}) {
    Start(0, {}, 0.25, kWorkers, open);
    for (uint64_t clock = 1; clock <= 2; ++clock) {
      for (uint32_t worker = 0; worker < kWorkers; ++worker) {
        Message message = PushOf(worker, clock, Factors(10 * clock + worker));
        if (worker == 1) {
          std::vector<float> first = Gaussian(kFirst, clock);
          message = ShardFixture::PushOf(worker, clock, clock, {{0, first}, {2, {1, 2, 3, 4}}});
        }
        shard_->Acknowledged(std::move(message));
      }
    }
    EXPECT_EQ(shard_->core().held_bytes(), 0u);
    std::vector<float>& all = weights.emplace_back(Weights());
    for (const float w : shard_->Weights(2)) all.push_back(w);
  }
  EXPECT_NE(weights[0], std::vector<float>(weights[0].size()));
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_EQ(weights[2], weights[0]);
}

// The unpacked size counts, not the received size.
TEST_F(FactorsShard, OnlySoManyPushesAreUnpackedTogether) {
  FactorsOf factors = Factors(1);
  const uint64_t full = factors.Payload(shapes_).size();
  std::ranges::fill(factors.values, 0.0f);
  const Message message = PushOf(0, 1, factors);
  EXPECT_LT(message.PayloadBytes(), full / 8);
  std::vector<WaitingPayload> all;
  for (int i = 0; i < 7; ++i) all.push_back(WaitingOf(message));
  const uint64_t one = all[0].UnpackedBytes();
  EXPECT_GE(one, 3 * (kRows + kColumns) * sizeof(float));
  EXPECT_EQ(HowManyFit(all, 7 * one), 7u);
  EXPECT_EQ(HowManyFit(all, 7 * one - 1), 6u);
  EXPECT_EQ(HowManyFit(all, 2 * one), 2u);
  EXPECT_EQ(HowManyFit(all, 1), 1u);
  EXPECT_EQ(HowManyFit({}, 1), 0u);

  const Message plain = ShardFixture::PushOf(0, 1, 1, {{0, Gaussian(kFirst, 1)}});
  EXPECT_EQ(WaitingOf(plain).UnpackedBytes(), 0u);
}

// The worker had no gradient to add the decay to.
TEST_F(FactorsShard, TheShardAddsTheWeightDecay) {
  Start(4, {}, 0.25);
  const FactorsOf factors = Factors(1);
  const std::vector<float> product = factors.Product(MatrixShape(kRows, kColumns));
  std::vector<float> expected(product.size());
  for (uint64_t clock = 1; clock <= 3; ++clock) {
    shard_->Acknowledged(PushOf(1, clock, factors));
    for (size_t i = 0; i < product.size(); ++i) {
      expected[i] -= product[i] + 0.25f * expected[i];
    }
  }
  EXPECT_EQ(Weights(), expected);
}

// adamw and lamb have their decay in the optimizer. So factors and their gradient lead to the same
// weights.
TEST_F(FactorsShard, DecoupledDecayIsNotAddedToThem) {
  Start(4);  // for the model
  Config adamw, lamb;
  adamw.mutable_optimizer()->mutable_adamw();
  lamb.mutable_optimizer()->mutable_lamb();
  for (const Config& config : {adamw, lamb}) {
    SliceUpdater updater(config);
    std::vector<std::vector<float>> weights;
    for (bool with_factors : {true, false}) {
      auto slice = updater.Make(0, placement_->slices(0), *model_, 1, nullptr);
      ASSERT_TRUE(slice.ok()) << slice.status();
      for (uint64_t step = 1; step <= 3; ++step) {
        const FactorsOf factors = Factors(step);
        const std::vector<std::byte> payload = factors.Payload({shapes_[0]});
        const std::vector<float> product = factors.Product(shapes_[0]);
        const CodecTable codecs;
        const auto reader = with_factors
                                ? codecs.Find(CODEC_FACTORS)->Open(payload, shapes_[0])
                                : codecs.Find(CODEC_NONE)->Open(AsBytes(product), shapes_[0]);
        ASSERT_TRUE(reader.ok()) << reader.status();
        Contribution contribution;
        contribution.reader = reader->get();
        updater.Apply(*slice, {&contribution, 1}, {.learning_rate = 0.1, .weight_decay = 0.25});
      }
      const auto values = slice->weights.read();
      weights.emplace_back(values.begin(), values.end());
    }
    EXPECT_EQ(weights[0], weights[1]);
  }
}

TEST_F(FactorsShard, PartsThatDoNotBelongTogetherAreRefused) {
  Start(4);
  uint64_t clock = 0;
  const auto refused = [&](const std::function<void(Message*)>& change) {
    Message message = PushOf(1, ++clock, Factors(1));
    change(&message);
    return shard_->Refused(std::move(message));
  };
  EXPECT_EQ(refused([](Message* m) {
              m->header.mutable_push()->mutable_parts(0)->set_with_previous(true);
            }).reason(),
            Refusal::MALFORMED);
  EXPECT_EQ(refused([](Message* m) {
              m->header.mutable_push()->mutable_parts(1)->set_codec(CODEC_NONE);
            }).reason(),
            Refusal::MALFORMED);
  EXPECT_EQ(refused([](Message* m) {
              m->header.mutable_push()->mutable_parts(1)->set_slice(2);
            }).reason(),
            Refusal::MALFORMED);
  EXPECT_EQ(refused([](Message* m) {
              m->header.mutable_push()->mutable_parts(1)->set_with_previous(false);
            }).reason(),
            Refusal::MALFORMED);
  EXPECT_EQ(refused([](Message* m) { m->payloads.push_back(m->payloads[0]); }).reason(),
            Refusal::MALFORMED);
  EXPECT_EQ(refused([](Message* m) {
              for (PushPart& part : *m->header.mutable_push()->mutable_parts()) {
                part.set_codec(CODEC_NONE);
              }
            }).reason(),
            Refusal::MALFORMED);
  EXPECT_EQ(refused([this](Message* m) {
              FactorsOf factors = Factors(1);
              factors.values[0] = std::numeric_limits<float>::quiet_NaN();
              AddFactors(factors, m);
            }).reason(),
            Refusal::NON_FINITE);
  EXPECT_EQ(Weights(), std::vector<float>(kRows * kColumns));
}

}  // namespace
}  // namespace psgd
