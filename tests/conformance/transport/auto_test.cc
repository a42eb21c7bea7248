// One listener is reached through shared memory, over UCX and over TCP.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "net/auto/auto_address.h"
#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

std::string AnyAutoAddress(const std::string& name) {
  return "tcp://127.0.0.1:0 ipc://auto-" + std::to_string(getpid()) + name;
}

Duration ProcessorTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

class Auto : public testing::Test {
 protected:
  static std::unique_ptr<Transport> WithFastNetwork(bool fast_network) {
    TransportOptions options;
    options.fast_network = fast_network;
    return *MakeTransport(ClusterConfig::AUTO, options);
  }
  // As a worker on another machine sees the address.
  static std::string Elsewhere(const std::string& text) {
    AutoAddress address = *ParseAutoAddress(text);
    address.machine = "another";
    return address.ToString();
  }
  // One peer a way to the listener.
  std::vector<std::unique_ptr<Endpoint>> PeersOf(const Endpoint& listener) const {
    std::vector<std::unique_ptr<Endpoint>> peers;
    peers.push_back(*transport_->Connect({listener.address()}));
    peers.push_back(*transport_->Connect({Elsewhere(listener.address())}));
    peers.push_back(*slow_->Connect({Elsewhere(listener.address())}));
    return peers;
  }
  const std::unique_ptr<Transport> transport_ = WithFastNetwork(true);
  const std::unique_ptr<Transport> slow_ = WithFastNetwork(false);
};

TEST_F(Auto, PeersOfEachWayAreToldApart) {
  auto listener = *transport_->Listen(AnyAutoAddress("a"));
  const auto ways = PeersOf(*listener);
  std::set<PeerId> peers;
  for (uint64_t i = 0; i < 30; ++i) {
    Endpoint& peer = *ways[i % 3];
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
  EXPECT_EQ(peers.size(), 3u);
  EXPECT_EQ(listener->stats().messages_received, 30u);
  for (const auto& peer : ways) EXPECT_EQ(peer->stats().messages_sent, 10u);
}

// As after a move to a server without a fast network: what each listener has counts.
TEST_F(Auto, OneConnectorReachesListenersEachInItsWay) {
  std::vector<std::unique_ptr<Endpoint>> listeners;
  std::vector<std::string> addresses;
  for (int i = 0; i < 6; ++i) {
    const auto& transport = i % 3 == 2 ? slow_ : transport_;
    listeners.push_back(*transport->Listen(AnyAutoAddress(std::to_string(i))));
    const std::string& address = listeners.back()->address();
    EXPECT_EQ(ParseAutoAddress(address)->ucx != 0, i % 3 != 2) << address;
    addresses.push_back(i % 3 == 0 ? address : Elsewhere(address));
  }
  for (const bool with_zmq : {true, false}) {
    if (!with_zmq) addresses.resize(2);
    auto connector = *transport_->Connect(addresses);
    for (uint64_t i = 0; i < addresses.size(); ++i) {
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
}

// A listener that waits is woken by whoever comes.
TEST_F(Auto, AWaitEndsWithWhateverComesFirst) {
  auto listener = *transport_->Listen(AnyAutoAddress("w"));
  for (const auto& peer : PeersOf(*listener)) {
    for (int i = 0; i < 2; ++i) {  // the second comes over a connection that is there
      std::thread sender([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        EXPECT_TRUE(peer->Send(0, MakePush(1, {10})).ok());
      });
      EXPECT_TRUE(ReceiveSoon(*listener));
      sender.join();
    }
  }
}

// No peer waits for those of another way, however busy they are.
TEST_F(Auto, BusyPeersStarveNobody) {
  auto listener = *transport_->Listen(AnyAutoAddress("b"));
  const auto ways = PeersOf(*listener);
  std::map<PeerId, int> received;
  const auto all_came = [&] {
    for (const auto& peer : ways) {
      for (int i = 0; i < 8; ++i) (void)peer->Send(0, MakePush(1, {10}));
    }
    while (const auto message = listener->Receive(Duration::zero())) ++received[message->from];
    return received.size() == 3 &&
           std::ranges::all_of(received, [](const auto& entry) { return entry.second >= 1000; });
  };
  EXPECT_TRUE(Eventually(all_came));
}

TEST_F(Auto, WhoOnlyWaitsUsesNoProcessorTime) {
  auto listener = *transport_->Listen(AnyAutoAddress("i"));
  const auto peers = PeersOf(*listener);
  for (const auto& peer : peers) {
    ASSERT_TRUE(peer->Send(0, MakePush(1, {10})).ok());
    ASSERT_TRUE(ReceiveSoon(*listener));
  }
  (void)listener->Receive(std::chrono::milliseconds(1500));  // they were active until now
  const Duration before = ProcessorTime();
  (void)listener->Receive(std::chrono::seconds(1));
  EXPECT_LT(ProcessorTime() - before, std::chrono::milliseconds(50));
}

// UCX has no encryption.
TEST(SecuredAuto, DoesWithoutUcx) {
  TransportOptions options;
  options.fast_network = true;
  SecuredTransport transport(ClusterConfig::AUTO, options);
  auto listener = *transport.Listen("tcp://127.0.0.1:0");
  EXPECT_EQ(ParseAutoAddress(listener->address())->ucx, 0) << listener->address();
}

TEST(AutoAddress, IsReadAsItIsWritten) {
  const std::string text = "tcp://[::1]:80 ucx=81 ipc://a machine=b/1";
  const auto address = ParseAutoAddress(text);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->tcp, "tcp://[::1]:80");
  EXPECT_EQ(address->UcxAddress(), "tcp://[::1]:81");
  EXPECT_EQ(address->ipc, "ipc://a");
  EXPECT_EQ(address->machine, "b/1");
  EXPECT_EQ(address->ToString(), text);
  for (const char* bad : {"", "ipc://a", "tcp://h:1 tcp://h:2", "tcp://h:1 what",
                          "tcp://h:1 ucx=", "tcp://h:1 ucx=0", "tcp://h:1 ucx=70000"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseAutoAddress(bad).status())) << bad;
  }
}

}  // namespace
}  // namespace psgd
