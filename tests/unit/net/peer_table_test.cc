#include "net/zmq/peer_table.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

TEST(PeerTableTest, KnowsWhoWasHeard) {
  PeerTable table(10);
  const PeerId a = table.Heard("a");
  const PeerId b = table.Heard(std::string("b\0x", 3));
  EXPECT_NE(a, b);
  EXPECT_EQ(table.Heard("a"), a);
  EXPECT_EQ(*table.RoutingId(a), "a");
  EXPECT_EQ(*table.RoutingId(b), std::string("b\0x", 3));
  EXPECT_EQ(table.RoutingId(77), nullptr);
}

TEST(PeerTableTest, AForgottenPeerComesBackAsAnother) {
  PeerTable table(10);
  const PeerId a = table.Heard("a");
  table.Forget(a);
  table.Forget(a);
  EXPECT_EQ(table.RoutingId(a), nullptr);
  EXPECT_NE(table.Heard("a"), a);
  EXPECT_EQ(table.size(), 1u);
}

TEST(PeerTableTest, AFloodPushesOutTheLongestSilent) {
  PeerTable table(100);
  const PeerId busy = table.Heard("busy");
  const PeerId silent = table.Heard("silent");
  for (int i = 0; i < 1000; ++i) {
    table.Heard(absl::StrCat("flood ", i));
    EXPECT_EQ(table.Heard("busy"), busy);
    ASSERT_LE(table.size(), 100u);
  }
  EXPECT_EQ(*table.RoutingId(busy), "busy");
  EXPECT_EQ(table.RoutingId(silent), nullptr);
}

}  // namespace
}  // namespace psgd
