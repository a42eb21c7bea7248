#include "compression/lossless.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/philox.h"

namespace psgd {
namespace {

using PlainBytes = std::vector<std::byte>;

std::unique_ptr<Packer> MakePacker(int level = 1) {
  LosslessConfig config;
  config.mutable_zstd()->set_level(level);
  return Packer::Make(config);
}

// Similar to a gradient: few exponents, random mantissas.
PlainBytes GradientBytes(size_t size) {
  RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), size);
  std::vector<float> values(size / sizeof(float) + 1);
  for (float& value : values) value = random.NextUnit() - 0.5f;
  PlainBytes bytes(size);
  std::memcpy(bytes.data(), values.data(), size);
  return bytes;
}
PlainBytes NoiseBytes(size_t size) {
  RandomStream random(MakeKey(2, RandomPurpose::kSynthetic), size);
  PlainBytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.NextBits());
  return bytes;
}

void ExpectSame(const absl::StatusOr<Bytes>& unpacked, const PlainBytes& payload) {
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_TRUE(std::ranges::equal(unpacked->span(), payload));
}

TEST(Lossless, IsAChoice) {
  EXPECT_EQ(Packer::Make({}), nullptr);
  LosslessConfig none;
  none.mutable_none();
  EXPECT_EQ(Packer::Make(none), nullptr);
  EXPECT_NE(MakePacker(), nullptr);
}

TEST(Lossless, WhatWasPackedComesBackInAnyNumberOfPlanes) {
  const auto packer = MakePacker();
  for (const size_t size : {1, 3, 64, 255, 256, 4097, 70002, 1 << 20}) {
    PlainBytes payload(size, std::byte{7});
    for (size_t i = 0; i < size; i += 3) payload[i] = static_cast<std::byte>(i % 5);
    for (const uint32_t planes : {1, 2, 4}) {
      const PackedPayload packed = packer->PackIn(planes, payload);
      if (size < 64) continue;  // a frame is longer than that
      ASSERT_EQ(packed.planes, planes) << size;
      EXPECT_LT(packed.frame.size(), size);
      ExpectSame(Unpack(packed.frame, planes, size), payload);
      // With another number of planes the frame holds another payload.
      const auto other = Unpack(packed.frame, planes == 4 ? 1 : 4, size);
      ASSERT_TRUE(other.ok());
      EXPECT_FALSE(std::ranges::equal(other->span(), payload));
    }
  }
}

TEST(Lossless, UnpackedPayloadsAreAlignedAndPlainOnesAreTheSameBytes) {
  const PlainBytes payload(5000);
  const PackedPayload packed = MakePacker()->PackIn(4, payload);
  const auto unpacked = Unpack(packed.frame, 4, payload.size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(unpacked->data()) % alignof(uint64_t), 0u);
  const Bytes plain = Bytes::CopyOf(payload);
  EXPECT_EQ(Unpack(plain, 0, 1)->data(), plain.data());
}

TEST(Lossless, ValuesPayInPlanes) {
  const PlainBytes payload = GradientBytes(100000);
  const auto packer = MakePacker();
  PackingHabit habit;
  const PackedPayload packed = packer->Pack(payload, &habit), mixed = packer->PackIn(1, payload);
  EXPECT_EQ(packed.planes, 4u);
  EXPECT_LT(packed.frame.size(), 0.9 * 100000);
  EXPECT_TRUE(mixed.planes == 0 || mixed.frame.size() > packed.frame.size());
}

TEST(Lossless, WhatDoesNotPayIsTriedOnceInARound) {
  const auto packer = MakePacker();
  PackingHabit habit;
  const PlainBytes noise = NoiseBytes(5000), payload(5000);
  EXPECT_EQ(packer->Pack(noise, &habit).planes, 0u);
  // Payloads that would pay are not tried until the next round.
  for (int i = 1; i < 64; ++i) ASSERT_EQ(packer->Pack(payload, &habit).planes, 0u) << i;
  EXPECT_NE(packer->Pack(payload, &habit).planes, 0u);
  // One payload that does not pay ends the packing.
  EXPECT_EQ(packer->Pack(noise, &habit).planes, 0u);
  EXPECT_EQ(packer->Pack(payload, &habit).planes, 0u);
}

TEST(Lossless, OtherLengthsAreTriedSooner) {
  const auto packer = MakePacker();
  PackingHabit habit;
  EXPECT_EQ(packer->Pack(NoiseBytes(5000), &habit).planes, 0u);
  for (int i = 1; i < 8; ++i) ASSERT_EQ(packer->Pack(PlainBytes(6000), &habit).planes, 0u) << i;
  EXPECT_EQ(packer->Pack(PlainBytes(5500), &habit).planes, 0u) << "about as long";
  EXPECT_NE(packer->Pack(PlainBytes(6000), &habit).planes, 0u);
}

TEST(Lossless, ShortPayloadsAreLeftAlone) {
  PackingHabit habit;
  const auto packer = MakePacker();
  EXPECT_EQ(packer->Pack(PlainBytes(255), &habit).planes, 0u);
  EXPECT_EQ(packer->Pack({}, &habit).planes, 0u);
  EXPECT_NE(packer->Pack(PlainBytes(256), &habit).planes, 0u);
}

TEST(Lossless, AHigherLevelIsNoLonger) {
  PlainBytes payload(200000);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * i / 977);
  const size_t first = MakePacker(1)->PackIn(1, payload).frame.size();
  const PackedPayload packed = MakePacker(19)->PackIn(1, payload);
  EXPECT_LT(packed.frame.size(), first);
  ExpectSame(Unpack(packed.frame, 1, payload.size()), payload);
}

// Frames that an attacker could send.
class HostileFrame : public testing::Test {
 protected:
  HostileFrame() : context_(ZSTD_createCCtx()) {}
  ~HostileFrame() override { ZSTD_freeCCtx(context_); }

  PlainBytes Frame(ByteSpan content) {
    PlainBytes frame(ZSTD_compressBound(content.size()));
    const size_t size =
        ZSTD_compress2(context_, frame.data(), frame.size(), content.data(), content.size());
    EXPECT_FALSE(ZSTD_isError(size));
    frame.resize(size);
    return frame;
  }
  static PlainBytes BytesOfFrame(const std::vector<uint8_t>& numbers) {
    const ByteSpan bytes = std::as_bytes(std::span(numbers));
    return {bytes.begin(), bytes.end()};
  }
  static void ExpectRefused(const PlainBytes& frame, const std::string& why, uint32_t planes = 1,
                            size_t most = kMost) {
    const auto unpacked = Unpack(Bytes::CopyOf(frame), planes, most);
    ASSERT_FALSE(unpacked.ok());
    EXPECT_EQ(unpacked.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(unpacked.status().message()), testing::HasSubstr(why));
  }

  static constexpr size_t kMost = 10000;
  const PlainBytes content_ = PlainBytes(kMost, std::byte{3});
  ZSTD_CCtx* const context_;
};

TEST_F(HostileFrame, IsSoundAsItIs) {
  ExpectSame(Unpack(Bytes::CopyOf(Frame(content_)), 1, kMost), content_);
}

TEST_F(HostileFrame, MayNotHoldMoreThanThePayloadHas) {
  ExpectRefused(Frame(content_), "10000 long, where 9999 is the most", 1, kMost - 1);
  // A bomb: the frame claims 1 TiB, but nothing is allocated for it.
  ExpectRefused(BytesOfFrame({0x28, 0xB5, 0x2F, 0xFD, 0xE0, 0, 0, 0, 0, 0, 1, 0, 0}),
                "was 1099511627776 long");
}

TEST_F(HostileFrame, MustSayItsLength) {
  ZSTD_CCtx_setParameter(context_, ZSTD_c_contentSizeFlag, 0);
  ExpectRefused(Frame(content_), "does not say how long");
}

TEST_F(HostileFrame, MayNotSayAnotherLength) {
  PlainBytes frame = Frame(content_);
  // The two-byte size field (size - 256) follows magic and descriptor.
  ASSERT_EQ(frame[5], std::byte{(kMost - 256) & 0xFF});
  for (const int change : {-1, 1}) {
    PlainBytes changed = frame;
    changed[5] = static_cast<std::byte>(static_cast<int>(frame[5]) + change);
    ExpectRefused(changed, "damaged", 1, kMost + 1);
  }
}

TEST_F(HostileFrame, HasNothingBehindIt) {
  PlainBytes frame = Frame(content_);
  const size_t size = frame.size();
  frame.push_back({});
  ExpectRefused(frame, "not one whole zstd frame");
  frame.resize(size - 1);
  ExpectRefused(frame, "not one whole zstd frame");
  // A second frame or a skippable frame, before or after the first.
  frame = Frame(content_);
  const PlainBytes empty = Frame({});
  frame.insert(frame.end(), empty.begin(), empty.end());
  ExpectRefused(frame, "not one whole zstd frame");
  PlainBytes two = BytesOfFrame({0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 9});
  frame = Frame(content_);
  two.insert(two.end(), frame.begin(), frame.end());
  ExpectRefused(two, "no zstd frame");
}

TEST_F(HostileFrame, NeedsNoDictionary) {
  const PlainBytes content = NoiseBytes(3000);
  ASSERT_FALSE(ZSTD_isError(ZSTD_CCtx_loadDictionary(context_, content.data(), content.size())));
  PlainBytes twice = content;
  twice.insert(twice.end(), content.begin(), content.end());
  ExpectRefused(Frame(twice), "damaged");
}

TEST_F(HostileFrame, IsOfTheFormatThatIsMeant) {
  ExpectRefused({}, "no zstd frame");
  ExpectRefused(PlainBytes(3), "no zstd frame");
  ExpectRefused(content_, "no zstd frame");
  // A zstd 0.7 frame, which the library might still read.
  PlainBytes old = Frame(content_);
  old[0] = std::byte{0x27};
  ExpectRefused(old, "no zstd frame");
  for (const uint32_t planes : {3, 5, 8, 1 << 31}) ExpectRefused(Frame(content_), "planes", planes);
}

TEST_F(HostileFrame, IsShorterThanWhatItHolds) {
  ExpectRefused(Frame(NoiseBytes(300)), "packing makes shorter");
  ExpectRefused(Frame({}), "packing makes shorter");
}

TEST_F(HostileFrame, MayBeDamagedAnywhere) {
  const PlainBytes payload = GradientBytes(4000);
  const PackedPayload packed = MakePacker()->PackIn(4, payload);
  ASSERT_EQ(packed.planes, 4u);
  const PlainBytes frame(packed.frame.span().begin(), packed.frame.span().end());
  for (size_t i = 0; i < frame.size(); ++i) {
    PlainBytes changed = frame;
    changed[i] ^= std::byte{0x10};
    const auto unpacked = Unpack(Bytes::CopyOf(changed), 4, payload.size());
    if (unpacked.ok()) {
      EXPECT_EQ(unpacked->size(), payload.size());
    }
  }
}

}  // namespace
}  // namespace psgd
