#include "worker/codec_choice.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

// A dense codec that costs nothing to compute, and a sparse one that does.
CodecChoice DenseAndSparse() {
  CodecChoice choice(2, 2);
  EXPECT_EQ(choice.current(), 0u);
  choice.Tried({.bytes = 1e6, .encode_seconds = 5e-3, .decode_seconds = 1e-3});
  choice.Tried({.bytes = 1e6, .encode_seconds = 1e-3, .decode_seconds = 3e-3});
  EXPECT_EQ(choice.current(), 1u);
  EXPECT_FALSE(choice.tried());
  choice.Tried({.bytes = 1e4, .encode_seconds = 9e-3, .decode_seconds = 0});
  choice.Tried({.bytes = 2e4, .encode_seconds = 8e-3, .decode_seconds = 0});
  EXPECT_TRUE(choice.tried());
  return choice;
}

TEST(CodecChoice, OfSeveralTriesTheCheapestCountsAndTheLongestPayload) {
  const CodecChoice choice = DenseAndSparse();
  EXPECT_EQ(choice.cost(0).encode_seconds, 1e-3);
  EXPECT_EQ(choice.cost(0).decode_seconds, 1e-3);
  EXPECT_EQ(choice.cost(1).bytes, 2e4);
  EXPECT_DOUBLE_EQ(choice.Predict(1, 1e6), 8e-3 + 2e-2);
}

TEST(CodecChoice, TheLinkDecides) {
  CodecChoice choice = DenseAndSparse();
  choice.Choose(1e7);
  EXPECT_EQ(choice.current(), 1u);
  choice.Choose(1e10);
  EXPECT_EQ(choice.current(), 0u);
  // What is used later is no try.
  choice.Tried({.bytes = 0});
  EXPECT_EQ(choice.cost(0).bytes, 1e6);
  choice.Choose(1e7);
  EXPECT_EQ(choice.current(), 1u);
}

TEST(CodecChoice, OfEqualsTheFirst) {
  CodecChoice choice(3, 1);
  for (int i = 0; i < 3; ++i) choice.Tried({.bytes = 100});
  choice.Choose(1);
  EXPECT_EQ(choice.current(), 0u);
}

}  // namespace
}  // namespace psgd
