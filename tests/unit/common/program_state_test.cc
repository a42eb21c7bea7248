#include "common/program_state.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

Bytes StateOf(size_t bytes) {
  std::vector<std::byte> state(bytes);
  for (size_t i = 0; i < bytes; ++i) state[i] = static_cast<std::byte>(i * 7 + i / 256);
  return Bytes::Adopt(std::move(state));
}

std::map<uint32_t, Bytes> PartsOf(const Bytes& state) {
  const auto parts = SplitProgramState(state);
  for (const auto& [id, part] : parts) EXPECT_TRUE(FitsProgramPart(id, part.size())) << id;
  return {parts.begin(), parts.end()};
}

TEST(ProgramState, IsTheSameAfterItWasSplit) {
  constexpr size_t kPart = kProgramPartBytes;
  for (const size_t bytes : {size_t{0}, size_t{1}, kPart - 17, kPart - 16, kPart - 15, kPart,
                             2 * kPart - 16, 2 * kPart, 3 * kPart + 5}) {
    const Bytes state = StateOf(bytes);
    auto parts = PartsOf(state);
    EXPECT_EQ(parts.size(), bytes + 16 <= kPart ? 1 : 1 + (bytes + 15) / kPart) << bytes;
    parts[7] = StateOf(3);  // a residual
    const auto joined = JoinProgramState(parts);
    ASSERT_TRUE(joined.has_value()) << bytes;
    EXPECT_EQ(ChecksumOf(*joined), ChecksumOf(state.span())) << bytes;
  }
}

TEST(ProgramState, IsNothingUnlessAllOfItIsThere) {
  const auto whole = PartsOf(StateOf(3 * kProgramPartBytes));
  ASSERT_EQ(whole.size(), 4u);
  EXPECT_FALSE(JoinProgramState({}).has_value());
  for (const auto& [id, part] : whole) {
    auto parts = whole;
    parts.erase(id);
    EXPECT_FALSE(JoinProgramState(parts).has_value()) << id;
    parts[id] = StateOf(part.size());
    EXPECT_FALSE(JoinProgramState(parts).has_value()) << id;
    parts[id] = StateOf(1);
    EXPECT_FALSE(JoinProgramState(parts).has_value()) << id;
  }
  // A part that is left from a longer state does no harm.
  auto more = whole;
  more[kProgramState + 4] = StateOf(5);
  EXPECT_TRUE(JoinProgramState(more).has_value());
}

TEST(ProgramState, PartsHaveBounds) {
  EXPECT_FALSE(FitsProgramPart(5, 1));
  EXPECT_FALSE(FitsProgramPart(kProgramState, 0));
  EXPECT_FALSE(FitsProgramPart(kProgramState, kProgramPartBytes + 1));
  EXPECT_TRUE(FitsProgramPart(kProgramState, kProgramPartBytes));
  EXPECT_TRUE(FitsProgramPart(kProgramState + 2048, 16));
  EXPECT_FALSE(FitsProgramPart(kProgramState + 2049, 16));
}

}  // namespace
}  // namespace psgd
