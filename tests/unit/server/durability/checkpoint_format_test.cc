#include "server/durability/checkpoint_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace psgd {
namespace {

std::string Encoded(const ValueKey& key) {
  const auto bytes = EncodeKey(key);
  return {bytes.data(), bytes.size()};
}

const std::vector<ValueKey> kKeys = {
    {ValueKind::kSlice, 0},          {ValueKind::kSlice, 127},     {ValueKind::kSlice, 128},
    {ValueKind::kSlice, 255},        {ValueKind::kSlice, 256},     {ValueKind::kWeights, 0},
    {ValueKind::kState, 1, 0},       {ValueKind::kState, 1, 1},    {ValueKind::kState, 2, 0},
    {ValueKind::kResidual, 0, 9},    {ValueKind::kResidual, 1, 3}, {ValueKind::kUnused, 65536},
    {ValueKind::kShown, UINT32_MAX},
};

TEST(CheckpointFormatTest, KeysComeBackAndSortByTheirParts) {
  EXPECT_TRUE(std::is_sorted(kKeys.begin(), kKeys.end()));
  std::string last;
  for (const ValueKey& key : kKeys) {
    const std::string encoded = Encoded(key);
    EXPECT_LT(last, encoded) << Describe(key);
    last = encoded;
    const auto decoded = DecodeKey(encoded);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->kind, key.kind);
    EXPECT_EQ(decoded->first, key.first);
    EXPECT_EQ(decoded->second, key.second);
  }
}

TEST(CheckpointFormatTest, RefusesKeysThatAreNone) {
  EXPECT_FALSE(DecodeKey("").ok());
  EXPECT_FALSE(DecodeKey("12345678").ok());
  EXPECT_FALSE(DecodeKey(std::string(9, '\0')).ok());
  EXPECT_FALSE(DecodeKey(std::string(9, '\x7f')).ok());
}

TEST(CheckpointFormatTest, TheLayoutIsAsDocumented) {
  EXPECT_EQ(Encoded({ValueKind::kState, 0x01020304, 0x05060708}),
            std::string("\x03\x01\x02\x03\x04\x05\x06\x07\x08"));
  std::string value;
  EncodeValue("key", {}, &value);
  EXPECT_EQ(value.substr(0, 8), std::string("\x02\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(value.size(), kStoredPrefixSize);
}

TEST(CheckpointFormatTest, NoChangedValueIsBelieved) {
  const std::string key = Encoded({ValueKind::kWeights, 3});
  const std::vector<float> contents = {1, 2, 3, 4, 5};
  std::string value;
  EncodeValue(key, AsBytes(contents), &value);
  auto decoded = DecodeValue(key, value);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->contents.size(), 20u);
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    std::string changed = value;
    changed[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_FALSE(DecodeValue(key, changed).ok()) << bit;
  }
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_FALSE(DecodeValue(key, value.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeValue(Encoded({ValueKind::kWeights, 4}), value).ok()) << "another slice's";
}

}  // namespace
}  // namespace psgd
