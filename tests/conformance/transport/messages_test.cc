// Messages arrive unchanged: sizes, boundaries, order, counts.
#include <algorithm>

#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

TEST_P(TransportTest, Echo) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  ASSERT_TRUE(connector->Send(0, MakePush(1, {100})).ok());
  auto request = ReceiveSoon(*listener);
  ASSERT_TRUE(request);
  EXPECT_TRUE(IsPush(request->message, 1, {100}));
  ASSERT_TRUE(listener->Send(request->from, request->message).ok());
  auto reply = ReceiveSoon(*connector);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->from, 0u);
  EXPECT_TRUE(IsPush(reply->message, 1, {100}));
}

TEST_P(TransportTest, PayloadBoundariesArePreserved) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  const std::vector<std::vector<size_t>> shapes = {{},
                                                   {0},
                                                   {0, 0, 0},
                                                   {1},
                                                   {1, 2, 3},
                                                   {0, 5, 0, 70},
                                                   {16383, 16384, 16385},
                                                   {20000, 3, 0, 20000, 1, 1, 100000},
                                                   {3, 4, 0},
                                                   {33, 7, 8193, 9}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(connector->Send(0, MakePush(i, shapes[i])).ok());
    auto there = ReceiveSoon(*listener);
    ASSERT_TRUE(there);
    ASSERT_TRUE(IsPush(there->message, i, shapes[i]));
    EXPECT_EQ(there->message.header.payload_sizes_size(), static_cast<int>(shapes[i].size()));
    ASSERT_TRUE(listener->Send(there->from, there->message).ok());
    auto back = ReceiveSoon(*connector);
    ASSERT_TRUE(back);
    ASSERT_TRUE(IsPush(back->message, i, shapes[i]));
  }
  EXPECT_EQ(listener->stats().malformed, 0u);
}

TEST_P(TransportTest, BigMessages) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  const std::vector<std::vector<size_t>> shapes = {
      {4u << 20}, {32u << 20}, {(4u << 20) - 1, 10, 4u << 20}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    ASSERT_TRUE(connector->Send(0, MakePush(i, shapes[i])).ok());
    auto received = ReceiveSoon(*listener);
    ASSERT_TRUE(received);
    EXPECT_TRUE(IsPush(received->message, i, shapes[i]));
  }
}

TEST_P(TransportTest, ManySmallOnesInOrder) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  constexpr uint64_t kCount = 5000;
  uint64_t sent = 0;
  uint64_t received = 0;
  while (received < kCount) {
    while (sent < kCount && connector->Send(0, MakePush(sent, {sent % 50})).ok()) ++sent;
    auto message = ReceiveSoon(*listener);
    ASSERT_TRUE(message);
    ASSERT_TRUE(IsPush(message->message, received, {received % 50}));
    ++received;
  }
  EXPECT_FALSE(listener->Receive(Milliseconds(0)));
}

TEST_P(TransportTest, StatsCountWhatTravels) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(connector->Send(0, MakePush(i, {1000, 50000})).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ReceiveSoon(*listener));
  const EndpointStats sent = connector->stats();
  const EndpointStats received = listener->stats();
  EXPECT_EQ(sent.messages_sent, 3u);
  EXPECT_EQ(received.messages_received, 3u);
  EXPECT_EQ(sent.bytes_sent, received.bytes_received);
  EXPECT_GT(sent.bytes_sent, 3 * 51000u);
  EXPECT_LT(sent.bytes_sent, 3 * 51100u);
}

TEST_P(TransportTest, PayloadsOutliveTheEndpoint) {
  auto transport = NewTransport();
  std::optional<Received> received;
  {
    auto [listener, connector] = Connected(*transport, AnyAddress());
    ASSERT_TRUE(connector->Send(0, MakePush(5, {10, 100'000})).ok());
    received = ReceiveSoon(*listener);
  }
  ASSERT_TRUE(received);
  EXPECT_TRUE(IsPush(received->message, 5, {10, 100'000}));
}

TEST_P(TransportTest, PayloadsAreReleasedOnceSent) {
  auto transport = NewTransport({.linger = Milliseconds(200), .security = {}});
  const Message message = MakePush(1, {100'000});
  {
    auto [listener, connector] = Connected(*transport, AnyAddress());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(connector->Send(0, message).ok());
      ASSERT_TRUE(ReceiveSoon(*listener));
    }
    // Only the test holds the payload; the transport has released it.
    EXPECT_TRUE(Eventually([&] { return message.payloads[0].owner().use_count() == 1; }));
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(connector->Send(0, message).ok());
  }
  EXPECT_TRUE(Eventually([&] { return message.payloads[0].owner().use_count() == 1; }));
}

TEST_P(TransportTest, OversizeIsRefusedBySender) {
  TransportOptions options;
  options.max_message_bytes = 1u << 20;
  auto transport = NewTransport(options);
  auto [listener, connector] = Connected(*transport, AnyAddress());
  const absl::Status status = connector->Send(0, MakePush(1, {1u << 20}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  ASSERT_TRUE(connector->Send(0, MakePush(2, {1000})).ok());
  auto received = ReceiveSoon(*listener);
  ASSERT_TRUE(received);
  EXPECT_TRUE(IsPush(received->message, 2, {1000}));
}

TEST_P(TransportTest, OversizeIsRefusedByReceiver) {
  if (!sockets()) GTEST_SKIP() << "in-process endpoints share one limit";
  TransportOptions options;
  options.max_message_bytes = 1u << 20;
  auto listener = *NewTransport(options)->Listen(AnyAddress());
  auto bad = *NewTransport()->Connect({listener->address()});
  auto good = *NewTransport()->Connect({listener->address()});
  // One frame above the limit, and several frames that exceed the limit only together.
  ASSERT_TRUE(bad->Send(0, MakePush(1, {2u << 20})).ok());
  EXPECT_FALSE(listener->Receive(Milliseconds(100)));
  ASSERT_TRUE(bad->Send(0, MakePush(2, {600'000, 600'000})).ok());
  EXPECT_FALSE(listener->Receive(Milliseconds(100)));
  ASSERT_TRUE(good->Send(0, MakePush(3, {500'000})).ok());
  auto received = ReceiveSoon(*listener);
  ASSERT_TRUE(received);
  EXPECT_TRUE(IsPush(received->message, 3, {500'000}));
}

}  // namespace
}  // namespace psgd
