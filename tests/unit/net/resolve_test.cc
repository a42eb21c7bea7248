#include "net/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::HasSubstr;

TEST(Resolve, AddressesInDigitsAreKnown) {
  const auto v4 = Resolve("127.0.0.1", 80);
  ASSERT_TRUE(v4.ok()) << v4.status();
  ASSERT_EQ(v4->size(), 1u);
  EXPECT_EQ(v4->front().family(), AF_INET);
  EXPECT_EQ(v4->front().port(), 80);
  const auto v6 = Resolve("::1", 81);
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(v6->front().family(), AF_INET6);
  EXPECT_EQ(v6->front().port(), 81);
}

TEST(Resolve, NamesGiveIpv4First) {
  const auto found = Resolve("localhost", 80);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->front().family(), AF_INET);
}

TEST(Resolve, UnknownNamesAreAnError) {
  const absl::Status status = Resolve("no-such-host.invalid", 80).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no host no-such-host.invalid: "));
}

TEST(Loopback, IsWhatOnlyThisMachineReaches) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "127.example.com", "no-such-host", ""}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(Lookup, KnowsDigitsAtOnceAndNamesSoon) {
  Lookup digits({.host = "127.0.0.1", .port = 7});
  const auto at_once = digits.Take();
  ASSERT_TRUE(at_once.has_value());
  ASSERT_TRUE(at_once->ok());
  EXPECT_EQ((*at_once)->front().port(), 7);

  Lookup name({.host = "localhost", .port = 7});
  std::optional<absl::StatusOr<std::vector<SocketAddress>>> soon;
  while (!soon) soon = name.Take();
  ASSERT_TRUE(soon->ok()) << soon->status();
  EXPECT_TRUE((*soon)->front().loopback());
  EXPECT_FALSE(name.Take().has_value());
}

}  // namespace
}  // namespace psgd
