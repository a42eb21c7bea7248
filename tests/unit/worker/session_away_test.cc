// A session whose owner computes: its thread sends what waits for room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/fakes/in_process/in_process_transport.h"
#include "worker/session.h"

namespace psgd {
namespace {

constexpr uint32_t kSlices = 200;
constexpr Duration kPatience = std::chrono::seconds(20);

Placement OneShard() {
  Placement placement;
  for (uint32_t i = 0; i < kSlices; ++i) placement.add_slices()->set_count(4);
  placement.add_endpoints("shard");
  return placement;
}

SessionOptions OneMessageAtATime() {
  SessionOptions options;
  options.window_bytes = 1;
  options.fuse_bytes = 1;
  return options;
}

class SessionAway : public testing::Test {
 protected:
  SessionAway()
      : transport_(MakeInProcessTransport({})),
        shard_([this, endpoint = std::shared_ptr<Endpoint>(*transport_->Listen("shard"))] {
          Serve(endpoint.get());
        }),
        core_(OneMessageAtATime(), OneShard(), SteadyNow()),
        session_(&core_, *transport_->Connect({"shard"}), [] { return absl::OkStatus(); }) {}
  ~SessionAway() override {
    stop_ = true;
    shard_.join();
  }

  void Push(uint32_t slice) {
    session_.Push(1, {slice, CODEC_NONE, Bytes::Adopt(std::vector<std::byte>(16))});
  }

  std::unique_ptr<Transport> transport_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> acknowledged_{0};
  std::thread shard_;
  SessionCore core_;
  Session session_;

 private:
  void Serve(Endpoint* endpoint) {
    while (!stop_) {
      auto received = endpoint->Receive(std::chrono::milliseconds(1));
      if (!received) continue;
      const uint64_t seq = received->message.header.push().seq();
      received->message.header.mutable_push_ack()->set_next_seq(seq + 1);
      received->message.payloads.clear();
      EXPECT_TRUE(endpoint->Send(received->from, received->message).ok());
      ++acknowledged_;
    }
  }
};

TEST_F(SessionAway, SendsWhatWaitsForRoom) {
  const Session::Away away(&session_);
  for (uint32_t slice = 0; slice < kSlices; ++slice) Push(slice);
  const Time until = SteadyNow() + kPatience;
  while (acknowledged_ < kSlices && SteadyNow() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(acknowledged_, kSlices);
}

TEST_F(SessionAway, TheOwnerComesAndGoes) {
  for (uint32_t round = 0; round < 4; ++round) {
    const Session::Away away(&session_);
    for (uint32_t i = 0; i < kSlices / 4; ++i) {
      Push(round * kSlices / 4 + i);
      const Session::Inside inside(&session_);
      EXPECT_EQ(core_.stats().resent, 0u);
    }
  }
  core_.EndClock(1, SteadyNow());
  ASSERT_TRUE(session_.WaitUntil([this] { return core_.AllAcknowledged(); }).ok());
  EXPECT_EQ(core_.AcknowledgedClock(), 1u);
  EXPECT_EQ(core_.stats().resent, 0u);
}

// An endpoint without peers, that keeps how long it was asked to wait.
class Silent : public Endpoint {
 public:
  explicit Silent(std::vector<Duration>* waits) : waits_(*waits) {}
  absl::Status Send(PeerId, const Message&) override { return absl::OkStatus(); }
  std::optional<Received> Receive(Duration timeout) override {
    waits_.push_back(timeout);
    std::this_thread::sleep_for(timeout);
    return std::nullopt;
  }
  void Wake() override {}
  const std::string& address() const override { return address_; }
  EndpointStats stats() const override { return {}; }

 private:
  std::vector<Duration>& waits_;
  const std::string address_;
};

TEST(SessionLimit, AWaitEndsAtItsLimit) {
  std::vector<Duration> waits;
  SessionCore core({}, OneShard(), SteadyNow());
  Time limit = Time::max();
  Session session(
      &core, std::make_unique<Silent>(&waits),
      [&] { return SteadyNow() < limit ? absl::OkStatus() : absl::AbortedError("over"); }, nullptr,
      [&] { return limit; });
  core.Pull(0, SteadyNow());
  for (const Duration left : {Milliseconds(20), Milliseconds(0)}) {
    waits.clear();
    limit = SteadyNow() + left;
    EXPECT_TRUE(absl::IsAborted(session.WaitUntil([&] { return !core.pulling(); })));
    Duration sum{};
    for (const Duration wait : waits) sum += wait;
    EXPECT_LE(sum, left + Milliseconds(2));
  }
}

TEST(SessionLimit, AMessageThatCannotBeSentEndsTheWait) {
  TransportOptions small;
  small.max_message_bytes = 8;
  const auto transport = MakeInProcessTransport(small);
  SessionCore core({}, OneShard(), SteadyNow());
  Session session(&core, *transport->Connect({"shard"}), [] { return absl::OkStatus(); });
  core.Pull(0, SteadyNow());
  const absl::Status status = session.WaitUntil([&] { return !core.pulling(); });
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("a message to shard 0 cannot be sent: a message of"));
}

TEST(SessionLimit, WhatIsDoneIsNotAskedAgain) {
  std::vector<Duration> waits;
  SessionCore core({}, OneShard(), SteadyNow());
  Session session(
      &core, std::make_unique<Silent>(&waits), [] { return absl::AbortedError("over"); }, nullptr,
      [] { return SteadyNow(); });
  int asked = 0;
  EXPECT_TRUE(session.WaitUntil([&] { return ++asked == 2; }).ok());
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace psgd
