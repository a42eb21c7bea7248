#include "net/link_speed.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

// What there is to know of other links depends on the machine: the system tests use networks.
TEST(LinkSpeed, IsNotKnownOfLoopbackAndOfOtherMachines) {
  EXPECT_EQ(LinkSpeedOf("127.0.0.1"), 0);
  EXPECT_EQ(LinkSpeedOf("::1"), 0);
  EXPECT_EQ(LinkSpeedOf("0.0.0.0"), 0);
  EXPECT_EQ(LinkSpeedOf("192.0.2.1"), 0);
  EXPECT_EQ(LinkSpeedOf("no.such.host.invalid"), 0);
}

}  // namespace
}  // namespace psgd
