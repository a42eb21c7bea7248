// One listener is reached through shared memory and over TCP.
#include <unistd.h>

#include <set>
#include <thread>

#include "net/auto/auto_address.h"
#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

std::string AnyAutoAddress(const std::string& name) {
  return "tcp://127.0.0.1:0 ipc://auto-" + std::to_string(getpid()) + name;
}

class Auto : public testing::Test {
 protected:
  // As a worker on another machine sees the address.
  static std::string Elsewhere(const std::string& text) {
    AutoAddress address = *ParseAutoAddress(text);
    address.machine = "another";
    return address.ToString();
  }
  const std::unique_ptr<Transport> transport_ = *MakeTransport(ClusterConfig::AUTO, {});
};

TEST_F(Auto, APeerHereAndAPeerElsewhereAreToldApart) {
  auto listener = *transport_->Listen(AnyAutoAddress("a"));
  auto here = *transport_->Connect({listener->address()});
  auto elsewhere = *transport_->Connect({Elsewhere(listener->address())});
  std::set<PeerId> peers;
  for (uint64_t i = 0; i < 20; ++i) {
    Endpoint& peer = i % 2 == 0 ? *here : *elsewhere;
    ASSERT_TRUE(peer.Send(0, MakePush(i, {i, 20'000})).ok());
    std::optional<Received> received;
    ASSERT_TRUE(Eventually([&] { return (received = ReceiveSoon(*listener)).has_value(); }));
    EXPECT_TRUE(IsPush(received->message, i, {i, 20'000}));
    peers.insert(received->from);
    ASSERT_TRUE(listener->Send(received->from, received->message).ok());
    auto reply = ReceiveSoon(peer);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(IsPush(reply->message, i, {i, 20'000}));
  }
  EXPECT_EQ(peers.size(), 2u);
  EXPECT_EQ(listener->stats().messages_received, 20u);
  EXPECT_EQ(here->stats().messages_sent, 10u);
}

TEST_F(Auto, OneConnectorReachesListenersBothWays) {
  std::vector<std::unique_ptr<Endpoint>> listeners;
  std::vector<std::string> addresses;
  for (int i = 0; i < 4; ++i) {
    listeners.push_back(*transport_->Listen(AnyAutoAddress(std::to_string(i))));
    const std::string& address = listeners.back()->address();
    addresses.push_back(i % 2 == 0 ? address : Elsewhere(address));
  }
  auto connector = *transport_->Connect(addresses);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(connector->Send(i, MakePush(i, {100})).ok());
    auto received = ReceiveSoon(*listeners[i]);
    ASSERT_TRUE(received);
    EXPECT_TRUE(IsPush(received->message, i, {100}));
    ASSERT_TRUE(listeners[i]->Send(received->from, received->message).ok());
    auto reply = ReceiveSoon(*connector);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->from, i);
  }
}

// A listener that waits for TCP is woken by shared memory, and the other way round.
TEST_F(Auto, AWaitEndsWithWhateverComesFirst) {
  auto listener = *transport_->Listen(AnyAutoAddress("w"));
  for (const bool local : {true, false}) {
    auto peer =
        *transport_->Connect({local ? listener->address() : Elsewhere(listener->address())});
    std::thread sender([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_TRUE(peer->Send(0, MakePush(1, {10})).ok());
    });
    EXPECT_TRUE(listener->Receive(kSoon));
    sender.join();
  }
}

TEST(AutoAddress, IsReadAsItIsWritten) {
  const std::string text = "tcp://[::1]:80 ipc://a machine=b/1";
  const auto address = ParseAutoAddress(text);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->tcp, "tcp://[::1]:80");
  EXPECT_EQ(address->ipc, "ipc://a");
  EXPECT_EQ(address->machine, "b/1");
  EXPECT_EQ(address->ToString(), text);
  for (const char* bad : {"", "ipc://a", "tcp://h:1 tcp://h:2", "tcp://h:1 what"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseAutoAddress(bad).status())) << bad;
  }
}

}  // namespace
}  // namespace psgd
