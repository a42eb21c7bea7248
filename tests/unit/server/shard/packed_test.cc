// Pushes and pulls whose payloads the lossless stage packed.
#include <algorithm>
#include <cmath>
#include <functional>

#include "compression/lossless.h"
#include "tests/unit/server/shard/shard_fixture.h"
#include "worker/install_slice.h"

namespace psgd {
namespace {

constexpr uint32_t kPackedElements = 2000;

Config WithZstd() {
  Config config;
  config.mutable_compression()->mutable_lossless()->mutable_zstd();
  return config;
}

std::unique_ptr<Packer> NewPacker() { return Packer::Make(WithZstd().compression().lossless()); }

// Mostly small values, like a gradient.
std::vector<float> Sines(float scale) {
  std::vector<float> values(kPackedElements);
  for (uint32_t i = 0; i < kPackedElements; ++i) {
    values[i] = scale * std::pow(std::sin(static_cast<float>(i)), 5.0f);
  }
  return values;
}

// The same push with packed payloads.
Message InZstd(Message push) {
  const auto packer = NewPacker();
  for (size_t i = 0; i < push.payloads.size(); ++i) {
    const PackedPayload packed = packer->PackIn(4, push.payloads[i].span());
    EXPECT_EQ(packed.planes, 4u);
    push.payloads[i] = packed.frame;
    push.header.mutable_push()->mutable_parts(static_cast<int>(i))->set_zstd(packed.planes);
  }
  return push;
}

Message PushOfSines(uint32_t worker, uint64_t clock) {
  return ShardFixture::PushOf(worker, clock, clock, {{0, Sines(1)}, {1, Sines(-3)}});
}

class PackedPush : public testing::TestWithParam<int64_t> {
 protected:
  static std::unique_ptr<ShardFixture> NewShard() {
    auto shard = std::make_unique<ShardFixture>(
        FixtureOptions{.staleness = GetParam(), .elements = {kPackedElements, kPackedElements}});
    shard->Start(2);
    return shard;
  }
};

// The shard needs no config to accept packed payloads.
TEST_P(PackedPush, IsThePushThatItHolds) {
  const auto plain = NewShard(), packed = NewShard();
  for (uint64_t clock = 1; clock < 4; ++clock) {
    for (const uint32_t worker : {1, 0}) {
      const Message push = PushOfSines(worker, clock), small = InZstd(push);
      EXPECT_LT(small.PayloadBytes(), push.PayloadBytes());
      EXPECT_EQ(plain->Acknowledged(push), clock + 1);
      EXPECT_EQ(packed->Acknowledged(small), clock + 1);
      EXPECT_EQ(packed->core().held_bytes(), plain->core().held_bytes());
    }
  }
  EXPECT_NE(plain->Weights(0)[1], 0);
  EXPECT_EQ(packed->Weights(0), plain->Weights(0));
  EXPECT_EQ(packed->Weights(1), plain->Weights(1));
}

INSTANTIATE_TEST_SUITE_P(AtEveryStaleness, PackedPush, testing::Values(0, 3, -1));

struct BadPacked {
  const char* name;
  std::function<void(PushPart*, Bytes*)> spoil;
  const char* detail;
};

class BadPackedPush : public testing::TestWithParam<BadPacked> {};

TEST_P(BadPackedPush, IsRefusedAndChangesNothing) {
  ShardFixture shard({.staleness = -1, .elements = {kPackedElements, kPackedElements}});
  shard.Start(1);
  Message push = InZstd(PushOfSines(0, 1));
  GetParam().spoil(push.header.mutable_push()->mutable_parts(1), &push.payloads[1]);
  const Refusal refusal = shard.Refused(push);
  EXPECT_EQ(refusal.reason(), Refusal::MALFORMED);
  EXPECT_THAT(refusal.detail(), testing::HasSubstr(GetParam().detail));
  EXPECT_EQ(shard.Weights(0), std::vector<float>(kPackedElements));
  EXPECT_EQ(shard.Acknowledged(InZstd(PushOfSines(0, 2))), 3u);
}

INSTANTIATE_TEST_SUITE_P(
    Packed, BadPackedPush,
    testing::Values(
        BadPacked{"Planes", [](PushPart* part, Bytes*) { part->set_zstd(3); }, "in 3 planes"},
        BadPacked{"Codec",
                  [](PushPart* part, Bytes*) { part->set_codec(static_cast<CodecId>(99)); },
                  "unknown codec 99"},
        BadPacked{"Plain", [](PushPart*, Bytes* payload) { *payload = BytesOf(Sines(1)); },
                  "slice 1, codec none: packed payload is no zstd frame"},
        BadPacked{"Cut", [](PushPart*, Bytes* payload) { *payload = payload->Sub(0, 90); },
                  "not one whole zstd frame"},
        // The unpacked size fits no payload of the slice, so it is not unpacked.
        BadPacked{"Bomb",
                  [](PushPart*, Bytes* payload) {
                    *payload = NewPacker()->PackIn(4, std::vector<std::byte>(1u << 24)).frame;
                  },
                  "was 16777216 long, where 8000 is the most"},
        BadPacked{"Short",
                  [](PushPart*, Bytes* payload) {
                    *payload = NewPacker()->PackIn(4, std::vector<std::byte>(1000)).frame;
                  },
                  "none payload of 1000 bytes"},
        // A packed payload is not packed again.
        BadPacked{"Nested",
                  [](PushPart*, Bytes* payload) {
                    const Bytes zeros =
                        NewPacker()->PackIn(1, std::vector<std::byte>(1u << 24)).frame;
                    *payload = NewPacker()->PackIn(4, zeros.span()).frame;
                  },
                  "none payload of"}),
    [](const auto& info) { return info.param.name; });

TEST(PackedPushes, OfASharedPayloadArePackedAlike) {
  ShardFixture shard({.staleness = -1, .elements = {kPackedElements, kPackedElements}});
  shard.Start(1);
  Message push = InZstd(PushOfSines(0, 1));
  PushPart* part = push.header.mutable_push()->mutable_parts(1);
  part->set_with_previous(true);
  part->set_zstd(0);
  push.payloads.pop_back();
  EXPECT_THAT(shard.Refused(push).detail(), testing::HasSubstr("tensor, codec and packing"));
}

// The payloads of a message are bounded together too.
TEST(PackedPushes, HoldNoMoreThanAMessageMay) {
  constexpr uint32_t kSlices = 17, kLargest = 1u << 20;
  ShardFixture shard({.staleness = -1, .elements = std::vector<uint32_t>(kSlices, kLargest)});
  shard.Start(1);
  Message push = ShardFixture::Header(0);
  push.header.mutable_push()->set_seq(1);
  push.header.mutable_push()->set_clock(1);
  const std::vector<std::byte> zeros(kLargest * sizeof(float));
  const PackedPayload packed = NewPacker()->PackIn(1, zeros);
  for (uint32_t slice = 0; slice < kSlices; ++slice) {
    PushPart* part = push.header.mutable_push()->add_parts();
    part->set_slice(slice);
    part->set_zstd(1);
    push.payloads.push_back(packed.frame);
  }
  EXPECT_LT(push.PayloadBytes(), 64u << 10);
  EXPECT_THAT(shard.Refused(push).detail(), testing::HasSubstr("slice 16, codec none: packed"));
}

// The journal has the packed message, and its replay does the same.
TEST(PackedPushes, AreJournaledAsTheyCame) {
  const FixtureOptions options = {
      .staleness = -1, .elements = {kPackedElements, kPackedElements}, .journal = true};
  ShardFixture shard(options), again(options);
  shard.Start(1);
  const ShardImage image = shard.core().MakeImage();
  shard.core().TakeJournal();
  const Message push = InZstd(PushOfSines(0, 1));
  shard.Acknowledged(push);
  const std::vector<JournalEntry> entries = shard.core().TakeJournal();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(std::ranges::equal(entries[0].payloads[1].span(), push.payloads[1].span()));
  ASSERT_TRUE(again.core().Restore(image).ok());
  ASSERT_TRUE(again.core().Replay(entries[0]).ok());
  EXPECT_EQ(again.Weights(0), shard.Weights(0));
  EXPECT_NE(again.Weights(0)[1], 0);
}

struct PackedPull {
  const char* name;
  bool exact;  // the worker has the shard's weights
};

class PackedPulls : public testing::TestWithParam<PackedPull> {
 protected:
  static Config PullConfig(bool pack) {
    Config config = pack ? WithZstd() : Config();
    config.mutable_compression()->set_dense_below(0);
    PullCodecConfig* pull = config.mutable_compression()->mutable_pull();
    const std::string name = GetParam().name;
    if (name == "fp16") pull->mutable_fp16();
    if (name == "int8") pull->mutable_int8();
    if (name == "delta") pull->mutable_delta();
    if (name == "deltaTopk") {
      pull->mutable_delta()->mutable_codec()->mutable_topk()->set_density(0.5);
    }
    return config;
  }
};

// A worker and the bytes that came to it.
struct Installed {
  std::vector<float> weights = std::vector<float>(kPackedElements);
  uint64_t mark = 0;
  Message last;

  void Pull(ShardFixture* shard, uint32_t worker, uint64_t request) {
    Message pull = ShardFixture::PullOf(worker, request, 0);
    pull.header.mutable_pull()->add_marks(mark);
    last = shard->Send(std::move(pull)).at(0).message;
    const PullPart& part = last.header.pull_reply().parts(0);
    const PulledSlice pulled = {part.codec(), part.version(),   part.form(),
                                part.mark(),  last.payloads[0], part.zstd()};
    const absl::Status status =
        InstallSlice(CodecTable(), {kPackedElements, kPackedElements, 1, 0}, pulled, weights);
    EXPECT_TRUE(status.ok()) << status;
    mark = part.mark();
  }
};

TEST_P(PackedPulls, BringTheSameWeightsInFewerBytes) {
  size_t bytes[2] = {0, 0};
  std::vector<float> weights[2];
  for (const bool pack : {false, true}) {
    ShardFixture shard({.staleness = 4, .elements = {kPackedElements}}, PullConfig(pack));
    shard.Start(3);
    Installed first, second;
    for (uint64_t clock = 1; clock < 5; ++clock) {
      std::vector<float> gradient = Sines(static_cast<float>(clock));
      // Whole numbers, so that changes are short too.
      for (float& value : gradient) value = std::round(10 * value);
      shard.Acknowledged(ShardFixture::PushOf(2, clock, clock, {{0, gradient}}));
      first.Pull(&shard, 0, clock);
      second.Pull(&shard, 1, clock);
      EXPECT_EQ(first.weights, second.weights);
      if (GetParam().exact) {
        EXPECT_EQ(first.weights, shard.Weights(0));
      }
      bytes[pack] += first.last.PayloadBytes();
    }
    const PullPart& part = first.last.header.pull_reply().parts(0);
    EXPECT_EQ(part.zstd() != 0, pack);
    // The payload was packed once for both workers.
    if (part.form() != PullPart::DIFFERENCE) {
      EXPECT_EQ(first.last.payloads[0].data(), second.last.payloads[0].data());
    }
    weights[pack] = first.weights;
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_LT(bytes[1], bytes[0]);
}

INSTANTIATE_TEST_SUITE_P(Codecs, PackedPulls,
                         testing::Values(PackedPull{"none", true}, PackedPull{"fp16", false},
                                         PackedPull{"int8", false}, PackedPull{"delta", true},
                                         PackedPull{"deltaTopk", false}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PackedPulls, AreNotInstalledWhereTheyCannotBe) {
  const CodecTable codecs;
  std::vector<float> weights(kPackedElements);
  const SliceShape shape = {kPackedElements, kPackedElements, 1, 0};
  const Bytes frame = NewPacker()->PackIn(4, AsBytes(Sines(1))).frame;
  const auto install = [&](const Bytes& payload, uint32_t planes, const SliceShape& slice) {
    return InstallSlice(codecs, slice, {CODEC_NONE, 1, PullPart::WHOLE, 0, payload, planes},
                        weights);
  };
  EXPECT_TRUE(absl::IsInvalidArgument(install(frame, 9, shape)));
  EXPECT_TRUE(absl::IsInvalidArgument(install(frame.Sub(0, 100), 4, shape)));
  EXPECT_TRUE(
      absl::IsInvalidArgument(install(frame, 4, {kPackedElements - 1, kPackedElements, 1, 0})));
  EXPECT_EQ(weights, std::vector<float>(kPackedElements));
  EXPECT_TRUE(install(frame, 4, shape).ok());
  EXPECT_EQ(weights, Sines(1));
}

}  // namespace
}  // namespace psgd
