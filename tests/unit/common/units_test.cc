#include "common/units.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

TEST(Units, Bytes) {
  EXPECT_EQ(*ParseBytes("512"), 512);
  EXPECT_EQ(*ParseBytes("4MiB"), 4 << 20);
  EXPECT_EQ(*ParseBytes(" 64 KiB "), 64 << 10);
  EXPECT_EQ(*ParseBytes("1GB"), 1000000000);
  EXPECT_EQ(*ParseBytes("1.5KiB"), 1536);
  EXPECT_EQ(*ParseBytes("-1"), -1);
  EXPECT_EQ(*ParseBytes("9223372036854775807"), INT64_MAX);
}

TEST(Units, Milliseconds) {
  EXPECT_EQ(*ParseMilliseconds("100ms"), 100);
  EXPECT_EQ(*ParseMilliseconds("2s"), 2000);
  EXPECT_EQ(*ParseMilliseconds("1.5 min"), 90000);
  EXPECT_EQ(*ParseMilliseconds("1h"), 3600000);
}

TEST(Units, RefusesWhatIsNoNumberOrHasNoUnit) {
  for (const char* text : {"", "fast", "MiB", "4 miles", "4mib", "1e99GB", "--4", "4MiB2", "nan"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
  // A duration needs a unit: nobody should guess milliseconds or seconds.
  const auto bare = ParseMilliseconds("100");
  ASSERT_FALSE(bare.ok());
  EXPECT_NE(bare.status().message().find("no unit"), absl::string_view::npos);
  EXPECT_FALSE(ParseBytes("8589934592GiB").ok());
}

TEST(Units, WhatIsFormattedReadsBack) {
  for (int64_t value : {int64_t{0}, int64_t{1}, int64_t{1023}, int64_t{1024}, int64_t{1536},
                        int64_t{4} << 20, int64_t{3} << 30, INT64_MAX, int64_t{-2048}}) {
    EXPECT_EQ(*ParseBytes(FormatBytes(value)), value) << FormatBytes(value);
    EXPECT_EQ(*ParseMilliseconds(FormatMilliseconds(value)), value) << FormatMilliseconds(value);
  }
  EXPECT_EQ(FormatBytes(4 << 20), "4MiB");
  EXPECT_EQ(FormatMilliseconds(60000), "60s");
}

TEST(Units, ForPeople) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1234), "1.23 kB");
  EXPECT_EQ(HumanBytes(45600), "45.6 kB");
  EXPECT_EQ(HumanBytes(999.6e3), "1.00 MB");
  EXPECT_EQ(HumanBytes(1.23e9), "1.23 GB");
  EXPECT_EQ(HumanBytes(5e15), "5000 TB");
}

TEST(Units, ReadsTimes) {
  EXPECT_DOUBLE_EQ(*ParseSeconds("12.5us"), 12.5e-6);
  EXPECT_DOUBLE_EQ(*ParseSeconds("3 ms"), 3e-3);
  EXPECT_DOUBLE_EQ(*ParseSeconds("0"), 0);
  for (const char* bad : {"12", "", "ms", "1 parsec", "nan s", "1e999s", "1us2"}) {
    EXPECT_FALSE(ParseSeconds(bad).ok()) << bad;
  }
}

TEST(Units, ReadsRates) {
  EXPECT_DOUBLE_EQ(*ParseRate("100mbit"), 12.5e6);
  EXPECT_DOUBLE_EQ(*ParseRate("unlimited"), 0);
  EXPECT_FALSE(ParseRate("100").ok());
  EXPECT_FALSE(ParseRate("10 MB").ok());
}

TEST(Units, WritesWhatItReads) {
  for (const double seconds : {0.0, 1e-9, 12.5e-6, 0.24321e-3, 1.5, 30.0, 7200.0}) {
    EXPECT_NEAR(*ParseSeconds(FormatSeconds(seconds)), seconds, 1e-5 * seconds)
        << FormatSeconds(seconds);
  }
  for (const double rate : {0.0, 12.5e6, 1.25e9, 7e9}) {
    EXPECT_NEAR(*ParseRate(FormatRate(rate)), rate, 1e-5 * rate) << FormatRate(rate);
  }
}

}  // namespace
}  // namespace psgd
