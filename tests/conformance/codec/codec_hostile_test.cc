// No bytes crash a decoder: it refuses them with a reason, or decodes finite values in range.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/conformance/codec/codec_cases.h"
#include "tests/folders.h"

namespace psgd::codec_test {
namespace {

class CodecHostile : public testing::TestWithParam<CodecCase> {
 protected:
  std::vector<std::byte> Payload(size_t elements, RandomStream* stream) const {
    std::vector<float> gradient(elements);
    for (float& g : gradient) g = stream->NextUnit() - 0.5f;
    std::vector<std::byte> payload;
    codec_->NewEncoder(ShapeOf(elements))->Encode({gradient, {}, {}, 0}, &payload);
    return payload;
  }

  // True if the payload was refused.
  bool RefusedOrSound(ByteSpan payload, size_t elements) const {
    // A copy of exact size, so that a sanitizer detects a read beyond the end.
    const std::vector<std::byte> exact(payload.begin(), payload.end());
    const auto reader = codec_->Open(exact, ShapeOf(elements));
    if (!reader.ok()) {
      EXPECT_FALSE(reader.status().message().empty());
      return true;
    }
    for (float value : Decode(*codec_, exact, elements, 37)) {
      if (!std::isfinite(value)) {
        ADD_FAILURE() << "a payload that Open accepted holds " << value;
        return false;
      }
    }
    std::vector<uint32_t> indices(11);
    std::vector<float> values(11);
    while (const size_t count = (*reader)->NextEntries(indices, values)) {
      for (size_t i = 0; i < count; ++i) EXPECT_LT(indices[i], elements);
    }
    return false;
  }

  const std::unique_ptr<Codec> codec_ = Make(GetParam(), CodecBackend::kSimd);
};

constexpr size_t kLengths[] = {0, 1, 7, 64, 321, 1009, 4097};

TEST_P(CodecHostile, EveryTruncationAndExtensionIsRefused) {
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 6);
  for (size_t elements : kLengths) {
    const std::vector<std::byte> payload = Payload(elements, &stream);
    const size_t step = payload.size() / 300 + 1;
    for (size_t size = 0; size < payload.size(); size += step) {
      ASSERT_TRUE(RefusedOrSound(ByteSpan(payload).first(size), elements)) << size;
    }
    for (size_t more : {1, 3, 4, 4096}) {
      for (std::byte filler : {std::byte{0}, std::byte{0xFF}}) {
        std::vector<std::byte> longer(payload);
        longer.resize(payload.size() + more, filler);
        ASSERT_TRUE(RefusedOrSound(longer, elements)) << elements << " + " << more;
      }
    }
  }
}

TEST_P(CodecHostile, FlippedBitsAreRefusedOrDecodeInRange) {
  RandomStream stream(MakeKey(2, RandomPurpose::kSynthetic), 7);
  for (size_t elements : kLengths) {
    const std::vector<std::byte> payload = Payload(elements, &stream);
    if (payload.empty()) continue;
    for (int round = 0; round < 800; ++round) {
      std::vector<std::byte> damaged(payload);
      const uint32_t flips = 1 + stream.NextBelow(4);
      for (uint32_t f = 0; f < flips; ++f) {
        // Half of the damage is in the first bytes, where the lengths are.
        const size_t reach =
            stream.NextBelow(2) == 0 ? std::min<size_t>(payload.size(), 16) : payload.size();
        const size_t at = stream.NextBelow(static_cast<uint32_t>(reach));
        damaged[at] ^= static_cast<std::byte>(1u << stream.NextBelow(8));
      }
      RefusedOrSound(damaged, elements);
    }
  }
}

TEST_P(CodecHostile, RandomBytesAreRefusedOrDecodeInRange) {
  RandomStream stream(MakeKey(3, RandomPurpose::kSynthetic), 8);
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::byte> noise(stream.NextBelow(200));
    for (std::byte& b : noise) b = static_cast<std::byte>(stream.NextBits());
    RefusedOrSound(noise, kLengths[stream.NextBelow(std::size(kLengths))]);
  }
}

TEST_P(CodecHostile, APayloadOfAnotherSliceIsRefused) {
  RandomStream stream(MakeKey(4, RandomPurpose::kSynthetic), 9);
  const std::vector<std::byte> payload = Payload(4097, &stream);
  // Ternary and one-bit codes may fit a slice of similar length; entries may fit a longer one.
  EXPECT_TRUE(RefusedOrSound(payload, 0));
  if (!codec_->Open(payload, ShapeOf(4097)).value()->sparse()) {
    EXPECT_TRUE(RefusedOrSound(payload, 4000));
    EXPECT_TRUE(RefusedOrSound(payload, 0xFFFFFFFFu));
  }
}

// tests/fuzz makes a target for each folder.
TEST(CodecFuzz, EveryDecoderHasACorpus) {
  for (const CodecConfig& config : DefaultCodecs()) {
    const std::string name(MakeCodec(config).value()->name());
    EXPECT_TRUE(std::filesystem::is_directory(SourceDir() + "/tests/fuzz/corpus/codec/" + name))
        << "make_codec_corpus writes it";
  }
}

INSTANTIATE_TEST_SUITE_P(AllCodecs, CodecHostile, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace psgd::codec_test
