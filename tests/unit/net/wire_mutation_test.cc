// Damages encoded messages at random, with and without a matching checksum. The decoder either
// refuses them or returns a message that keeps the format's rules.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "net/wire_format.h"

namespace psgd {
namespace {

constexpr size_t kMutationLimit = 1u << 20;

std::vector<std::byte> Sample(std::mt19937* random) {
  Message message;
  message.header.set_worker((*random)() % 100);
  auto* push = message.header.mutable_push();
  const size_t parts = (*random)() % 5;
  for (size_t i = 0; i < parts; ++i) {
    push->add_parts()->set_slice((*random)());
    message.payloads.push_back(Bytes::Adopt(std::vector<std::byte>((*random)() % 40)));
  }
  std::vector<std::byte> bytes;
  const EncodedMessage encoded = *EncodeMessage(message, kMutationLimit);
  for (const Bytes& frame : encoded.frames) {
    bytes.insert(bytes.end(), frame.span().begin(), frame.span().end());
  }
  return bytes;
}

void Mutate(std::vector<std::byte>* bytes, std::mt19937* random) {
  const size_t changes = 1 + (*random)() % 4;
  for (size_t i = 0; i < changes && !bytes->empty(); ++i) {
    const size_t at = (*random)() % bytes->size();
    switch ((*random)() % 6) {
      case 0:
        (*bytes)[at] ^= std::byte(1u << ((*random)() % 8));
        break;
      case 1:
        (*bytes)[at] = std::byte((*random)());
        break;
      case 2:
        bytes->resize(at);
        break;
      case 3:
        bytes->insert(bytes->begin() + at, std::byte((*random)()));
        break;
      case 4:
        bytes->erase(bytes->begin() + at);
        break;
      case 5:
        (*bytes)[at] = std::byte{0xff};
        break;
    }
  }
}

void Seal(std::vector<std::byte>* bytes) {
  if (bytes->size() < kPreludeBytes) return;
  // Fixes the lengths as well, so that the protobuf parser is tested, too.
  uint32_t header_bytes;
  std::memcpy(&header_bytes, bytes->data() + kHeaderBytesAt, sizeof(header_bytes));
  const uint64_t rest = bytes->size() - kPreludeBytes;
  header_bytes = static_cast<uint32_t>(std::min<uint64_t>(header_bytes, rest));
  const uint64_t body_bytes = rest - header_bytes;
  std::memcpy(bytes->data() + kHeaderBytesAt, &header_bytes, sizeof(header_bytes));
  std::memcpy(bytes->data() + kBodyBytesAt, &body_bytes, sizeof(body_bytes));
  Checksum checksum;
  checksum.Add(ByteSpan(*bytes).first(kChecksumAt));
  checksum.Add(ByteSpan(*bytes).subspan(kPreludeBytes));
  const uint64_t value = checksum.Value();
  std::memcpy(bytes->data() + kChecksumAt, &value, sizeof(value));
}

TEST(WireMutationTest, NeverMoreThanARefusal) {
  std::mt19937 random(1);
  size_t accepted = 0;
  uint64_t seen = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::vector<std::byte> bytes = Sample(&random);
    Mutate(&bytes, &random);
    if (round % 2 == 0) Seal(&bytes);
    const Bytes whole = Bytes::Adopt(std::move(bytes));
    // The message comes in one piece, or is cut anywhere.
    const size_t cut = random() % (whole.size() + 1);
    const std::vector<Bytes> frames =
        round % 3 == 0 ? std::vector<Bytes>{whole.Sub(0, cut), whole.Sub(cut, whole.size() - cut)}
                       : std::vector<Bytes>{whole};
    const auto decoded = DecodeMessage(frames, kMutationLimit);
    if (!decoded.ok()) {
      ASSERT_FALSE(decoded.status().message().empty());
      continue;
    }
    ++accepted;
    ASSERT_EQ(decoded->payloads.size(), decoded->header.payload_sizes_size());
    ASSERT_LE(decoded->PayloadBytes(), whole.size());
    // Under a sanitizer this read finds payloads outside of our bytes.
    for (const Bytes& payload : decoded->payloads) seen ^= ChecksumOf(payload.span());
  }
  EXPECT_GT(accepted, 1000u);  // changed payload bytes with a new seal are valid messages
  EXPECT_NE(seen, 0u);
}

}  // namespace
}  // namespace psgd
