// Waiting, waking, full queues, and destructors that do not hang.
#include <atomic>
#include <thread>

#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

TransportOptions SmallQueues() {
  TransportOptions options;
  options.max_message_bytes = 256u << 10;
  options.queue_bytes = 1u << 20;
  options.send_queue_messages = 8;
  options.linger = Milliseconds(200);
  return options;
}

TEST_P(TransportTest, ReceiveTimesOut) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  for (Endpoint* endpoint : {listener.get(), connector.get()}) {
    const Time start = SteadyNow();
    EXPECT_FALSE(endpoint->Receive(Milliseconds(50)));
    EXPECT_GE(SteadyNow() - start, Milliseconds(49));
    EXPECT_FALSE(endpoint->Receive(Milliseconds(0)));
    EXPECT_FALSE(endpoint->Receive(Milliseconds(-5)));
  }
}

TEST_P(TransportTest, WakeEndsAReceive) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  for (Endpoint* endpoint : {listener.get(), connector.get()}) {
    std::thread waker([&] {
      std::this_thread::sleep_for(Milliseconds(30));
      endpoint->Wake();
    });
    const Time start = SteadyNow();
    EXPECT_FALSE(endpoint->Receive(Duration::max()));
    EXPECT_LT(SteadyNow() - start, kSoon);
    waker.join();
    // A wake without a waiting Receive ends the next Receive, once.
    endpoint->Wake();
    endpoint->Wake();
    EXPECT_FALSE(endpoint->Receive(Duration::max()));
    const Time second = SteadyNow();
    EXPECT_FALSE(endpoint->Receive(Milliseconds(20)));
    EXPECT_GE(SteadyNow() - second, Milliseconds(19));
  }
}

TEST_P(TransportTest, WakesAreNeverLost) {
  auto transport = NewTransport();
  auto listener = *transport->Listen(AnyAddress());
  constexpr int kRounds = 2000;
  std::atomic<int> posted{0};
  std::atomic<int> seen{0};
  std::thread waker([&] {
    for (int i = 1; i <= kRounds; ++i) {
      posted.store(i, std::memory_order_relaxed);
      listener->Wake();
      while (seen.load() < i) std::this_thread::yield();
    }
  });
  while (seen.load() < kRounds) {
    EXPECT_FALSE(listener->Receive(Duration::max()));
    seen.store(posted.load(std::memory_order_relaxed));
  }
  waker.join();
}

TEST_P(TransportTest, FullQueueToListenerPushesBackAndRecovers) {
  auto transport = NewTransport(SmallQueues());
  auto [listener, connector] = Connected(*transport, AnyAddress());
  uint64_t sent = 0;
  absl::Status status;
  // The kernel's buffers take messages in addition to the queues.
  while (sent < 5000 && (status = connector->Send(0, MakePush(sent, {100'000}))).ok()) ++sent;
  ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << sent << " " << status;
  for (uint64_t i = 0; i < sent; ++i) {
    auto received = ReceiveSoon(*listener);
    ASSERT_TRUE(received) << i << " of " << sent;
    ASSERT_TRUE(IsPush(received->message, i, {100'000}));
  }
  EXPECT_TRUE(Eventually([&] { return connector->Send(0, MakePush(sent, {10})).ok(); }));
  EXPECT_TRUE(ReceiveSoon(*listener));
}

TEST_P(TransportTest, FullQueueToConnectorPushesBackAndRecovers) {
  auto transport = NewTransport(SmallQueues());
  auto [listener, connector] = Connected(*transport, AnyAddress());
  ASSERT_TRUE(connector->Send(0, MakePush(0, {})).ok());
  const PeerId peer = ReceiveSoon(*listener)->from;
  uint64_t sent = 0;
  absl::Status status;
  while (sent < 5000 && (status = listener->Send(peer, MakePush(sent, {100'000}))).ok()) ++sent;
  ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << sent << " " << status;
  for (uint64_t i = 0; i < sent; ++i) {
    auto received = ReceiveSoon(*connector);
    ASSERT_TRUE(received) << i << " of " << sent;
    ASSERT_TRUE(IsPush(received->message, i, {100'000}));
  }
  EXPECT_TRUE(Eventually([&] { return listener->Send(peer, MakePush(sent, {10})).ok(); }));
  EXPECT_TRUE(ReceiveSoon(*connector));
}

TEST_P(TransportTest, DestructionWithMessagesInFlightEnds) {
  const Time start = SteadyNow();
  for (int round = 0; round < 3; ++round) {
    auto transport = NewTransport(SmallQueues());
    auto [listener, connector] = Connected(*transport, AnyAddress());
    connector->Send(0, MakePush(0, {})).IgnoreError();
    auto hello = ReceiveSoon(*listener);
    ASSERT_TRUE(hello);
    for (int i = 0; i < 200; ++i) {
      connector->Send(0, MakePush(i, {100'000})).IgnoreError();
      listener->Send(hello->from, MakePush(i, {100'000})).IgnoreError();
    }
    // Either side ends first.
    if (round % 2 == 0) connector.reset();
  }
  EXPECT_LT(SteadyNow() - start, kSoon);
}

TEST_P(TransportTest, DestructionWithoutAPeerEnds) {
  const std::string nobody = FreeAddress();
  const Time start = SteadyNow();
  auto transport = NewTransport();
  {
    auto connector = *transport->Connect({nobody});
    ASSERT_TRUE(connector->Send(0, MakePush(1, {100})).ok());
  }
  EXPECT_LT(SteadyNow() - start, std::chrono::seconds(5));
}

TEST_P(TransportTest, LastMessagesLeaveBeforeTheEnd) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  ASSERT_TRUE(connector->Send(0, MakePush(0, {})).ok());
  const PeerId peer = ReceiveSoon(*listener)->from;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(listener->Send(peer, MakePush(i, {50'000})).ok());
  const std::jthread closer([&, l = &listener] { l->reset(); });
  for (int i = 0; i < 20; ++i) {
    auto received = ReceiveSoon(*connector);
    ASSERT_TRUE(received) << i;
    EXPECT_TRUE(IsPush(received->message, i, {50'000}));
  }
}

TEST_P(TransportTest, AnEndpointMayMoveToAnotherThread) {
  auto transport = NewTransport();
  auto [listener, connector] = Connected(*transport, AnyAddress());
  std::thread echo([endpoint = std::move(listener)] {
    for (int i = 0; i < 100; ++i) {
      auto received = ReceiveSoon(*endpoint);
      ASSERT_TRUE(received);
      ASSERT_TRUE(endpoint->Send(received->from, received->message).ok());
    }
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(connector->Send(0, MakePush(i, {3000})).ok());
    auto received = ReceiveSoon(*connector);
    ASSERT_TRUE(received);
    EXPECT_TRUE(IsPush(received->message, i, {3000}));
  }
  echo.join();
}

}  // namespace
}  // namespace psgd
