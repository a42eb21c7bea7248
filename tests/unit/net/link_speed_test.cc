#include "net/link_speed.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace psgd {
namespace {

namespace fs = std::filesystem;

TEST(LinkSpeed, IsNotKnownOfLoopbackAndOfOtherMachines) {
  EXPECT_EQ(LinkSpeedOf("127.0.0.1"), 0);
  EXPECT_EQ(LinkSpeedOf("::1"), 0);
  EXPECT_EQ(LinkSpeedOf("0.0.0.0"), 0);
  EXPECT_EQ(LinkSpeedOf("192.0.2.1"), 0);
  EXPECT_EQ(LinkSpeedOf("no.such.host.invalid"), 0);
}

TEST(LinkSpeed, IsThatOfADevice) {
  const fs::path folder = fs::path(testing::TempDir()) / "link_speed_test";
  fs::remove_all(folder);
  EXPECT_EQ(LinkSpeedIn(folder), 0);
  fs::create_directories(folder);
  std::ofstream(folder / "speed") << "10000\n";
  EXPECT_EQ(LinkSpeedIn(folder), 0);  // as a container's interface
  fs::create_directories(folder / "device");
  EXPECT_EQ(LinkSpeedIn(folder), 1.25e9);
  std::ofstream(folder / "speed") << "-1\n";
  EXPECT_EQ(LinkSpeedIn(folder), 0);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace psgd
