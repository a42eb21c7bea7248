#include "net/wire_format.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/folders.h"

namespace psgd {
namespace {

constexpr size_t kLimit = 64u << 20;

Bytes Filled(size_t size, uint8_t with) {
  return Bytes::Adopt(std::vector<std::byte>(size, std::byte{with}));
}

Message MakeMessage(const std::vector<size_t>& sizes) {
  Message message;
  message.header.set_worker(3);
  message.header.mutable_push()->set_seq(12);
  for (size_t i = 0; i < sizes.size(); ++i) {
    message.payloads.push_back(Filled(sizes[i], static_cast<uint8_t>(i + 1)));
  }
  return message;
}

std::vector<std::byte> Joined(const EncodedMessage& encoded) {
  std::vector<std::byte> bytes;
  for (const Bytes& frame : encoded.frames) {
    bytes.insert(bytes.end(), frame.span().begin(), frame.span().end());
  }
  return bytes;
}

void ExpectEqual(const Message& got, const Message& want) {
  EXPECT_EQ(got.header.worker(), want.header.worker());
  EXPECT_EQ(got.header.push().seq(), want.header.push().seq());
  ASSERT_EQ(got.payloads.size(), want.payloads.size());
  ASSERT_EQ(got.header.payload_sizes_size(), static_cast<int>(want.payloads.size()));
  for (size_t i = 0; i < got.payloads.size(); ++i) {
    const ByteSpan a = got.payloads[i].span();
    const ByteSpan b = want.payloads[i].span();
    ASSERT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << i;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % kPayloadAlignment, 0u);
  }
}

const std::vector<std::vector<size_t>> kShapes = {{},
                                                  {0},
                                                  {1},
                                                  {0, 0, 3, 0},
                                                  {5, 6, 7},
                                                  {kCoalesceBelow - 1, kCoalesceBelow},
                                                  {100'000},
                                                  {100'000, 1, 2, 100'001, 3, 0},
                                                  {1, 70'000, 1, 70'000, 1}};

TEST(WireFormatTest, RoundTripInFrames) {
  for (const auto& shape : kShapes) {
    const Message message = MakeMessage(shape);
    const auto encoded = EncodeMessage(message, kLimit);
    ASSERT_TRUE(encoded.ok());
    EXPECT_EQ(encoded->size, Joined(*encoded).size());
    EXPECT_EQ(*EncodedSize(message, kLimit), encoded->size);
    const auto decoded = DecodeMessage(encoded->frames, kLimit);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectEqual(*decoded, message);
  }
}

TEST(WireFormatTest, RoundTripInOnePieceAtAnyAlignment) {
  for (const auto& shape : kShapes) {
    const Message message = MakeMessage(shape);
    const std::vector<std::byte> bytes = Joined(*EncodeMessage(message, kLimit));
    for (size_t shift = 0; shift < 9; ++shift) {
      std::vector<std::byte> shifted(shift);
      shifted.insert(shifted.end(), bytes.begin(), bytes.end());
      const Bytes piece = Bytes::Adopt(shifted).Sub(shift, bytes.size());
      const auto decoded = DecodeMessage({&piece, 1}, kLimit);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      ExpectEqual(*decoded, message);
    }
  }
}

TEST(WireFormatTest, LargePayloadsAreSharedNotCopied) {
  const Message message = MakeMessage({kCoalesceBelow, 10, 20, 1u << 20});
  const auto encoded = EncodeMessage(message, kLimit);
  ASSERT_EQ(encoded->frames.size(), 4u);  // header, large, two small ones, large
  EXPECT_EQ(encoded->frames[1].data(), message.payloads[0].data());
  EXPECT_EQ(encoded->frames[2].size(), 30u);
  EXPECT_EQ(encoded->frames[3].data(), message.payloads[3].data());
  const auto decoded = DecodeMessage(encoded->frames, kLimit);
  EXPECT_EQ(decoded->payloads[3].data(), message.payloads[3].data());
}

TEST(WireFormatTest, AForwardedMessageKeepsItsSizes) {
  const Message message = MakeMessage({10, 30'000});
  const Message received = *DecodeMessage(EncodeMessage(message, kLimit)->frames, kLimit);
  const auto again = DecodeMessage(EncodeMessage(received, kLimit)->frames, kLimit);
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectEqual(*again, message);
}

TEST(WireFormatTest, TheBytesAreTheDocumentedOnes) {
  Message message;
  message.header.set_worker(3);
  message.payloads = {Filled(2, 0xaa)};
  const std::vector<std::byte> bytes = Joined(*EncodeMessage(message, kLimit));
  const uint8_t expected[] = {'P', 'S', 'G', 'D', 2, 0, 0, 0, 5, 0, 0, 0,
                              0,   0,   0,   0,   2, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_EQ(bytes.size(), kPreludeBytes + 5 + 2);
  EXPECT_EQ(std::memcmp(bytes.data(), expected, sizeof(expected)), 0);
  const uint8_t rest[] = {0x08, 3, 0x22, 1, 2, 0xaa, 0xaa};  // worker: 3, payload_sizes: [2]
  EXPECT_EQ(std::memcmp(bytes.data() + kPreludeBytes, rest, sizeof(rest)), 0);
  std::vector<std::byte> covered(bytes.begin(), bytes.begin() + kChecksumAt);
  covered.insert(covered.end(), bytes.begin() + kPreludeBytes, bytes.end());
  uint64_t checksum;
  std::memcpy(&checksum, bytes.data() + kChecksumAt, sizeof(checksum));
  EXPECT_EQ(checksum, ChecksumOf(covered));
}

TEST(WireFormatTest, SendersLimitsAreNamed) {
  const auto large = EncodeMessage(MakeMessage({1000}), 1000);
  EXPECT_EQ(large.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(large.status().message().find("1000"), absl::string_view::npos);
  Message many;
  many.payloads.resize(kMaxPayloads + 1);
  EXPECT_EQ(EncodeMessage(many, kLimit).status().code(), absl::StatusCode::kInvalidArgument);
  Message header;
  header.header.mutable_refusal()->set_detail(std::string(kMaxHeaderBytes, 'x'));
  EXPECT_EQ(EncodeMessage(header, kLimit).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(WireFormatTest, TheMostPartsOfASenderFit) {
  DataHeader pull, push;
  for (int i = 0; i < kMostParts; ++i) {
    PullPart* const pulled = pull.mutable_pull_reply()->add_parts();
    pulled->set_slice(UINT32_MAX);
    pulled->set_codec(CODEC_CHUNKED);
    pulled->set_version(UINT64_MAX);
    pulled->set_form(PullPart::UPDATES);
    pulled->set_mark(UINT64_MAX);
    pulled->set_with_previous(true);
    pulled->set_zstd(4);
    PushPart* const pushed = push.mutable_push()->add_parts();
    pushed->set_slice(UINT32_MAX);
    pushed->set_codec(CODEC_CHUNKED);
    pushed->set_base_version(UINT64_MAX);
    pushed->set_with_previous(true);
    pushed->set_zstd(4);
    pushed->set_base_life(UINT32_MAX);
  }
  const size_t largest_sizes = size_t{5} * kMostParts;
  for (const DataHeader& header : {pull, push}) {
    EXPECT_LT(header.ByteSizeLong() + largest_sizes, kMaxHeaderBytes);
  }
  EXPECT_LE(static_cast<size_t>(kMostParts), kMaxPayloads);
}

// Changes encoded bytes and seals them with a valid checksum, so that only the later checks see the
// change.
class SealedTest : public testing::Test {
 protected:
  SealedTest() : bytes_(Joined(*EncodeMessage(MakeMessage({10, 20'000, 5}), kLimit))) {}

  template <typename T>
  void Set(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }
  static void Seal(std::vector<std::byte>* bytes) {
    Checksum checksum;
    checksum.Add(ByteSpan(*bytes).first(kChecksumAt));
    checksum.Add(ByteSpan(*bytes).subspan(kPreludeBytes));
    const uint64_t value = checksum.Value();
    std::memcpy(bytes->data() + kChecksumAt, &value, sizeof(value));
  }
  void ExpectRefused(const std::string& why, size_t limit = kLimit) {
    if (bytes_.size() >= kPreludeBytes) Seal(&bytes_);
    const Bytes piece = Bytes::CopyOf(bytes_);
    const auto decoded = DecodeMessage({&piece, 1}, limit);
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(decoded.status().message().find(why), absl::string_view::npos) << decoded.status();
  }
  // Replaces the encoded header with these bytes.
  void SetHeader(const std::string& header) {
    uint32_t old;
    std::memcpy(&old, bytes_.data() + kHeaderBytesAt, sizeof(old));
    bytes_.erase(bytes_.begin() + kPreludeBytes, bytes_.begin() + kPreludeBytes + old);
    const auto* begin = reinterpret_cast<const std::byte*>(header.data());
    bytes_.insert(bytes_.begin() + kPreludeBytes, begin, begin + header.size());
    Set(kHeaderBytesAt, static_cast<uint32_t>(header.size()));
  }

  std::vector<std::byte> bytes_;
};

TEST_F(SealedTest, ShorterThanThePrelude) {
  for (size_t size : {0u, 1u, 31u}) {
    bytes_.resize(size);
    ExpectRefused("first frame");
  }
}
TEST_F(SealedTest, Magic) {
  Set(kMagicAt, uint32_t{0x50545448});
  ExpectRefused("magic");
}
TEST_F(SealedTest, VersionNamesBoth) {
  Set(kVersionAt, uint16_t{1});
  ExpectRefused("the peer speaks protocol version 1, this side version 2");
}
TEST_F(SealedTest, ReservedBytes) {
  Set(kReservedAt, uint16_t{1});
  ExpectRefused("reserved");
}
TEST_F(SealedTest, HeaderLongerThanTheMessage) {
  Set(kHeaderBytesAt, uint32_t{UINT32_MAX});
  ExpectRefused("header of 4294967295");
}
TEST_F(SealedTest, BodyLongerThanTheMessage) {
  Set(kBodyBytesAt, uint64_t{UINT64_MAX});
  ExpectRefused("body of 18446744073709551615");
}
TEST_F(SealedTest, Truncated) {
  bytes_.pop_back();
  ExpectRefused("came");
}
TEST_F(SealedTest, LargerThanAllowed) { ExpectRefused("this endpoint allows", 20'000); }
TEST_F(SealedTest, HeaderIsNotProtobuf) {
  SetHeader("\xff\xff\xff\xff");
  ExpectRefused("not a DataHeader");
}
TEST_F(SealedTest, HeaderNestsWithoutEnd) {
  SetHeader(std::string(1000, '\x0b'));  // start of a group, again and again
  ExpectRefused("not a DataHeader");
}
TEST_F(SealedTest, PayloadSizesDoNotAddUp) {
  DataHeader header;
  header.add_payload_sizes(UINT32_MAX);
  header.add_payload_sizes(UINT32_MAX);
  SetHeader(header.SerializeAsString());
  ExpectRefused("add up to 8589934590");
}
TEST_F(SealedTest, TooManyPayloads) {
  DataHeader header;
  for (size_t i = 0; i <= kMaxPayloads; ++i) header.add_payload_sizes(0);
  SetHeader(header.SerializeAsString());
  ExpectRefused("65537 payloads");
}

TEST(WireFormatTest, DamageIsFoundByTheChecksum) {
  const auto encoded = EncodeMessage(MakeMessage({10, 20'000}), kLimit);
  std::vector<std::byte> bytes = Joined(*encoded);
  for (size_t at : {kChecksumAt, kPreludeBytes + 3, bytes.size() - 1}) {
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    const Bytes piece = Bytes::Adopt(std::move(damaged));
    const auto decoded = DecodeMessage({&piece, 1}, kLimit);
    EXPECT_NE(decoded.status().message().find("checksum"), absl::string_view::npos) << at;
  }
}

TEST(WireFormatTest, APayloadMayNotCrossFrames) {
  const std::vector<std::byte> bytes = Joined(*EncodeMessage(MakeMessage({20'000}), kLimit));
  const Bytes whole = Bytes::CopyOf(bytes);
  const std::vector<Bytes> halves = {whole.Sub(0, 1000), whole.Sub(1000, whole.size() - 1000)};
  EXPECT_NE(DecodeMessage(halves, kLimit).status().message().find("crosses"),
            absl::string_view::npos);
  // Empty frames between payloads are allowed.
  const size_t body_at = whole.size() - 20'000;
  const std::vector<Bytes> odd = {whole.Sub(0, body_at), Bytes(), whole.Sub(body_at, 20'000),
                                  Bytes()};
  EXPECT_TRUE(DecodeMessage(odd, kLimit).ok());
  EXPECT_FALSE(DecodeMessage({}, kLimit).ok());
}

// Each line of the example has bytes and then a text.
TEST(WireFormatTest, TheExampleOfTheDocumentIsAMessage) {
  std::ifstream page(SourceDir() + "/docs/wire.md");
  std::string line;
  while (std::getline(page, line) && !line.ends_with("one payload `aa aa`:")) continue;
  std::getline(page, line);
  std::vector<std::byte> bytes;
  while (std::getline(page, line) && line.starts_with("    ")) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word.size() != 2 || !std::isxdigit(word[0]) || !std::isxdigit(word[1])) break;
      bytes.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
    }
  }
  Message message;
  message.header.set_worker(3);
  message.payloads.push_back(Filled(2, 0xaa));
  EXPECT_EQ(bytes, Joined(*EncodeMessage(message, kLimit)));
}

}  // namespace
}  // namespace psgd
