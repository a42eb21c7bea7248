#include "worker/codec_choice.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

// A dense codec that is cheap to compute, and a sparse codec that costs more.
CodecChoice DenseAndSparse() {
  CodecChoice choice(2, 3);
  for (double slow : {9.0, 1.1, 1.2}) {  // the first try allocates buffers
    EXPECT_EQ(choice.current(), 0u);
    EXPECT_FALSE(choice.tried());
    choice.Tried({.bytes = 1e6, .encode_seconds = slow * 1e-3, .decode_seconds = slow * 2e-3});
  }
  for (double bytes : {1e4, 3e4, 2e4}) {
    EXPECT_EQ(choice.current(), 1u);
    EXPECT_FALSE(choice.tried());
    choice.Tried({.bytes = bytes, .encode_seconds = 8e-3, .decode_seconds = 0});
  }
  EXPECT_TRUE(choice.tried());
  EXPECT_EQ(choice.current(), 0u) << "none is chosen yet";
  return choice;
}

TEST(CodecChoice, OfSeveralTriesTheLeastTimeAndTheMedianPayloadCount) {
  const CodecChoice choice = DenseAndSparse();
  EXPECT_DOUBLE_EQ(choice.Cost(0).encode_seconds, 1.1e-3);
  EXPECT_DOUBLE_EQ(choice.Cost(0).decode_seconds, 2.2e-3);
  EXPECT_EQ(choice.Cost(1).bytes, 2e4);
  EXPECT_DOUBLE_EQ(choice.Predict(0, 1e8), 3.3e-3 + 1e-2);
  EXPECT_DOUBLE_EQ(choice.Predict(1, 1e6), 8e-3 + 2e-2);
}

TEST(CodecChoice, TheLinkDecides) {
  for (double slow : {1e5, 1e7, 2e8}) {
    CodecChoice choice = DenseAndSparse();
    EXPECT_TRUE(choice.Choose(slow));
    EXPECT_EQ(choice.current(), 1u) << slow;
  }
  for (double fast : {3e8, 1e10}) {
    CodecChoice choice = DenseAndSparse();
    EXPECT_TRUE(choice.Choose(fast));
    EXPECT_EQ(choice.current(), 0u) << fast;
  }
}

// The dense codec takes 3.3 ms + 1 MB, the sparse codec 8 ms + 20 kB: equal at 208.5 MB/s.
TEST(CodecChoice, ASmallGainIsNotWorthAChange) {
  CodecChoice choice = DenseAndSparse();
  EXPECT_TRUE(choice.Choose(215e6));
  EXPECT_EQ(choice.current(), 0u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(choice.Choose(i % 2 == 0 ? 200e6 : 215e6)) << "it wavers";
    EXPECT_EQ(choice.current(), 0u);
  }
  EXPECT_TRUE(choice.Choose(100e6));
  EXPECT_EQ(choice.current(), 1u);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(choice.Choose(i % 2 == 0 ? 200e6 : 215e6));
  EXPECT_EQ(choice.current(), 1u);
  EXPECT_TRUE(choice.Choose(1e9));
  EXPECT_EQ(choice.current(), 0u);
}

TEST(CodecChoice, OfEqualsTheFirst) {
  CodecChoice choice(3, 1);
  for (int i = 0; i < 3; ++i) choice.Tried({.bytes = 100});
  EXPECT_TRUE(choice.Choose(1)) << "the first choice is one";
  EXPECT_EQ(choice.current(), 0u);
  EXPECT_FALSE(choice.Choose(2));
}

}  // namespace
}  // namespace psgd
