// Many peers, peers that come and go, and addresses in use.
#include <set>

#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

TEST_P(TransportTest, ManyPeersToOneListener) {
  auto transport = NewTransport();
  auto listener = *transport->Listen(AnyAddress());
  constexpr size_t kPeers = 12;
  std::vector<std::unique_ptr<Endpoint>> peers;
  for (size_t i = 0; i < kPeers; ++i) {
    peers.push_back(*transport->Connect({listener->address()}));
    ASSERT_TRUE(peers[i]->Send(0, MakePush(i, {i})).ok());
  }
  std::set<PeerId> ids;
  for (size_t i = 0; i < kPeers; ++i) {
    auto received = ReceiveSoon(*listener);
    ASSERT_TRUE(received);
    ids.insert(received->from);
    ASSERT_TRUE(listener->Send(received->from, received->message).ok());
  }
  EXPECT_EQ(ids.size(), kPeers);
  for (size_t i = 0; i < kPeers; ++i) {
    auto reply = ReceiveSoon(*peers[i]);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(IsPush(reply->message, i, {i}));
  }
}

TEST_P(TransportTest, OneConnectorToManyListeners) {
  auto transport = NewTransport();
  std::vector<std::unique_ptr<Endpoint>> listeners;
  std::vector<std::string> addresses;
  for (int i = 0; i < 5; ++i) {
    listeners.push_back(*transport->Listen(AnyAddress()));
    addresses.push_back(listeners.back()->address());
  }
  auto connector = *transport->Connect(addresses);
  for (uint64_t i = 0; i < listeners.size(); ++i) {
    ASSERT_TRUE(connector->Send(i, MakePush(i, {i, 20'000})).ok());
  }
  for (uint64_t i = 0; i < listeners.size(); ++i) {
    auto received = ReceiveSoon(*listeners[i]);
    ASSERT_TRUE(received);
    EXPECT_TRUE(IsPush(received->message, i, {i, 20'000}));
    ASSERT_TRUE(listeners[i]->Send(received->from, received->message).ok());
  }
  std::set<PeerId> from;
  for (uint64_t i = 0; i < listeners.size(); ++i) {
    auto received = ReceiveSoon(*connector);
    ASSERT_TRUE(received);
    EXPECT_TRUE(IsPush(received->message, received->from, {received->from, 20'000}));
    from.insert(received->from);
  }
  EXPECT_EQ(from.size(), listeners.size());
  EXPECT_EQ(connector->Send(99, MakePush(0, {})).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(TransportTest, ConnectBeforeListen) {
  const std::string address = FreeAddress();
  auto transport = NewTransport();
  auto connector = *transport->Connect({address});
  ASSERT_TRUE(connector->Send(0, MakePush(1, {100})).ok());
  EXPECT_FALSE(connector->Receive(Milliseconds(100)));
  auto listener = transport->Listen(address);
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::optional<Received> received;
  ASSERT_TRUE(Eventually([&] {
    connector->Receive(Milliseconds(1));  // repairs the connection
    return (received = (*listener)->Receive(Milliseconds(20))).has_value();
  }));
  EXPECT_TRUE(IsPush(received->message, 1, {100}));
}

TEST_P(TransportTest, PeerDiesAndComesBack) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  const std::string address = listener->address();
  ASSERT_TRUE(connector->Send(0, MakePush(1, {100})).ok());
  ASSERT_TRUE(ReceiveSoon(*listener));
  for (int round = 0; round < 2; ++round) {
    listener.reset();
    EXPECT_FALSE(connector->Receive(Milliseconds(50)));
    auto again = transport->Listen(address);
    ASSERT_TRUE(again.ok()) << again.status();
    listener = *std::move(again);
    // A message on its way when the peer died may be lost. A message sent again arrives, and its
    // answer comes back.
    std::optional<Received> reply;
    ASSERT_TRUE(Eventually([&] {
      connector->Send(0, MakePush(2, {100})).IgnoreError();
      if (auto received = listener->Receive(Milliseconds(20))) {
        EXPECT_TRUE(listener->Send(received->from, received->message).ok());
      }
      return (reply = connector->Receive(Milliseconds(20))).has_value();
    }));
    EXPECT_TRUE(IsPush(reply->message, 2, {100}));
  }
}

TEST_P(TransportTest, SendToAPeerThatIsGoneIsUnavailable) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  ASSERT_TRUE(connector->Send(0, MakePush(1, {})).ok());
  const PeerId peer = ReceiveSoon(*listener)->from;
  ASSERT_TRUE(listener->Send(peer, MakePush(1, {})).ok());
  connector.reset();
  EXPECT_TRUE(
      Eventually([&] { return absl::IsUnavailable(listener->Send(peer, MakePush(1, {}))); }));
  EXPECT_EQ(listener->Send(12345, MakePush(1, {})).code(), absl::StatusCode::kUnavailable);
}

TEST_P(TransportTest, PeerIdsAreNotReused) {
  auto transport = NewTransport();
  auto listener = *transport->Listen(AnyAddress());
  std::set<PeerId> seen;
  for (int i = 0; i < 5; ++i) {
    auto connector = *transport->Connect({listener->address()});
    ASSERT_TRUE(connector->Send(0, MakePush(1, {})).ok());
    auto received = ReceiveSoon(*listener);
    ASSERT_TRUE(received);
    EXPECT_TRUE(seen.insert(received->from).second);
  }
}

TEST_P(TransportTest, AddressInUseIsExplained) {
  auto transport = NewTransport();
  auto first = *transport->Listen(AnyAddress());
  auto second = transport->Listen(first->address());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
  EXPECT_NE(second.status().message().find(first->address()), absl::string_view::npos)
      << second.status();
  EXPECT_NE(second.status().message().find("choose another"), absl::string_view::npos)
      << second.status();
  // The first listener is not disturbed.
  auto connector = *transport->Connect({first->address()});
  ASSERT_TRUE(connector->Send(0, MakePush(1, {})).ok());
  EXPECT_TRUE(ReceiveSoon(*first));
}

TEST_P(TransportTest, BadAddressesAreExplained) {
  if (!sockets()) GTEST_SKIP() << "any name will do in-process";
  auto transport = NewTransport();
  for (const char* address : {"", "127.0.0.1:80", "tcp://127.0.0.1", "tcp://:80", "tcp://h:70000",
                              "udp://127.0.0.1:80", "ipc:///a/path"}) {
    const auto listener = transport->Listen(address);
    EXPECT_EQ(listener.status().code(), absl::StatusCode::kInvalidArgument) << address;
    const auto connector = transport->Connect({address});
    EXPECT_EQ(connector.status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
  EXPECT_EQ(transport->Connect({"tcp://127.0.0.1:0"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  if (GetParam() != Kind::kIpc && GetParam() != Kind::kSecuredIpc) {
    const auto elsewhere = transport->Listen("tcp://203.0.113.7:0");
    EXPECT_EQ(elsewhere.status().code(), absl::StatusCode::kInvalidArgument) << elsewhere.status();
  }
}

}  // namespace
}  // namespace psgd
