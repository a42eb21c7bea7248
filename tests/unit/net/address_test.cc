#include "net/address.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

TEST(AddressTest, ReadsWhatPeopleWrite) {
  const auto v4 = ParseAddress("tcp://127.0.0.1:5555");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 5555);
  EXPECT_EQ(v4->ToString(), "tcp://127.0.0.1:5555");
  const auto v6 = ParseAddress("tcp://[::1]:0");
  ASSERT_TRUE(v6.ok());
  EXPECT_TRUE(v6->ipv6());
  EXPECT_EQ(v6->HostPort(), "[::1]:0");
  EXPECT_EQ(WithoutBrackets("[::1]"), "::1");
  EXPECT_EQ(WithoutBrackets("::1"), "::1");
  EXPECT_EQ(HostPort("node", 7), "node:7");
  const auto ipc = ParseAddress("ipc://shard-0");
  ASSERT_TRUE(ipc.ok());
  EXPECT_EQ(ipc->name, "shard-0");
  EXPECT_EQ(ipc->ToString(), "ipc://shard-0");
}

TEST(AddressTest, RefusesTheRestAndSaysWhatIsExpected) {
  for (const std::string text :
       {"", "tcp://", "tcp://host", "tcp://host:", "tcp://host:x", "tcp://host:-1",
        "tcp://host:65536", "tcp://::1:80", "tcp://[host]:80", "tcp://[::1:80",
        "tcp://[host:99]:80", "http://host:80", "ipc://", "ipc:///tmp/x", "127.0.0.1:1"}) {
    const auto address = ParseAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.status().message().find("tcp://HOST:PORT"), absl::string_view::npos);
  }
  EXPECT_FALSE(ParseAddress("ipc://" + std::string(200, 'x')).ok());
}

TEST(AddressTest, KnowsFromWhereItReachesAServer) {
  EXPECT_EQ(OwnAddressTowards("127.0.0.1:9").value(), "127.0.0.1");
  EXPECT_EQ(OwnAddressTowards("localhost:9").value(), "127.0.0.1");  // also where it has ::1
  EXPECT_TRUE(absl::IsUnavailable(OwnAddressTowards("no-such-host.invalid:9").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(OwnAddressTowards("no-port").status()));
}

}  // namespace
}  // namespace psgd
