#include "common/standstill.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

TEST(Standstill, TimeBeyondTheLongestTickIsLost) {
  Standstill standstill(Milliseconds(100));
  EXPECT_EQ(standstill.Lost(Milliseconds(5000)), Duration(0)) << "there was no tick before";
  EXPECT_EQ(standstill.Lost(Milliseconds(5100)), Duration(0));
  EXPECT_EQ(standstill.Lost(Milliseconds(5900)), Milliseconds(700));
  EXPECT_EQ(standstill.Lost(Milliseconds(5800)), Milliseconds(-100)) << "the clock went back";
}

}  // namespace
}  // namespace psgd
