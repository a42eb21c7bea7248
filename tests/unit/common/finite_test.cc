#include "common/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace psgd {
namespace {

TEST(Finite, FindsTheFirstNumberThatIsNot) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const std::vector<float> sound = {0, -0.0f, 1e-45f, kLargest, -kLargest, 1, 2, 3, 4};
  EXPECT_TRUE(AllFinite({}));
  EXPECT_TRUE(AllFinite(AsBytes(sound)));
  EXPECT_EQ(FirstNotFinite(sound), std::nullopt);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (size_t at = 0; at < sound.size(); ++at) {
      std::vector<float> values = sound;
      values[at] = bad;
      EXPECT_FALSE(AllFinite(AsBytes(values)));
      EXPECT_EQ(FirstNotFinite(values), at);
    }
  }
}

TEST(Finite, NumbersAtAnyAddress) {
  std::vector<std::byte> bytes(9);
  StoreField(std::numeric_limits<float>::infinity(), bytes.data() + 5);
  EXPECT_FALSE(AllFinite(ByteSpan(bytes).subspan(1)));
}

}  // namespace
}  // namespace psgd
