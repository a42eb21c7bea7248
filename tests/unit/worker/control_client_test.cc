// Tests calls to a server that hangs.
#include "worker/control_client.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/log.h"
#include "proto/control.grpc.pb.h"
#include "worker/heartbeat.h"

namespace psgd {
namespace {

using testing::HasSubstr;

// Receives calls and answers none until Answer is called.
class HangingServer : public Control::Service {
 public:
  HangingServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~HangingServer() override {
    Answer();
    server_->Shutdown();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  void Answer() {
    std::lock_guard lock(mutex_);
    answers_ = true;
    changed_.notify_all();
  }
  // Returns the time that each attempt so far had until its deadline.
  std::vector<Duration> attempts() const {
    std::lock_guard lock(mutex_);
    return attempts_;
  }

  grpc::Status Heartbeat(grpc::ServerContext* context, const HeartbeatRequest*,
                         HeartbeatReply* reply) override {
    reply->set_drain(true);
    return Hang(context);
  }
  grpc::Status Join(grpc::ServerContext*, const JoinRequest*, JoinReply* reply) override {
    *reply = joined;
    return grpc::Status::OK;
  }
  grpc::Status Register(grpc::ServerContext* context, const RegisterRequest*,
                        RegisterReply*) override {
    return Hang(context);
  }
  grpc::Status NextSegment(grpc::ServerContext* context, const NextSegmentRequest*,
                           NextSegmentReply* reply) override {
    reply->mutable_segment()->mutable_batches()->Resize(batches, UINT32_MAX);
    return Hang(context);
  }
  // Counts attempts whose caller gave up before its deadline.
  int given_up() const { return given_up_; }
  JoinReply joined;  // the reply to a join
  int batches = 0;   // of the next share

 private:
  grpc::Status Hang(grpc::ServerContext* context) {
    const auto deadline = context->deadline();
    std::unique_lock lock(mutex_);
    attempts_.push_back(deadline - std::chrono::system_clock::now());
    while (!answers_ && !context->IsCancelled())
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    if (!answers_ && std::chrono::system_clock::now() < deadline) ++given_up_;
    if (attempts_.size() >= 2) answers_ = true;
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<Duration> attempts_;
  bool answers_ = false;
  std::atomic<int> given_up_{0};
};

JoinReply Joined(Duration lease) {
  JoinReply joined;
  joined.set_lease_ms(std::chrono::duration_cast<std::chrono::milliseconds>(lease).count());
  return joined;
}

// A lease must not run out while one attempt waits.
TEST(ControlClient, AHeartbeatThatHangsIsTriedAgainWithinTheLease) {
  constexpr Duration kLease = std::chrono::seconds(3);
  HangingServer server;
  ControlClient client({.server = server.address(), .interrupted = {}, .credentials = {}});
  Heartbeat heartbeat(&client, Joined(kLease), NullLog());
  EXPECT_TRUE(heartbeat.Flush().ok());
  EXPECT_TRUE(heartbeat.drain());
  const std::vector<Duration> attempts = server.attempts();
  ASSERT_GE(attempts.size(), 2u);
  for (const Duration attempt : attempts) EXPECT_LE(attempt, kLease / 2);
}

// The first registration installs the model, which may take long. A second request would not help.
TEST(ControlClient, ARegistrationIsGivenTimeAlsoWhereAnotherServerMayLead) {
  HangingServer server;
  ControlClient client(
      {.server = server.address() + ",127.0.0.1:1", .interrupted = {}, .credentials = {}});
  std::thread answer([&] {
    while (server.attempts().empty()) std::this_thread::yield();
    server.Answer();
  });
  EXPECT_TRUE(client.Register(RegisterRequest()).ok());
  answer.join();
  ASSERT_EQ(server.attempts().size(), 1u);
  EXPECT_GT(server.attempts()[0], std::chrono::seconds(10));
}

// A worker of a program has all batches of an epoch in one share.
TEST(ControlClient, AShareMayBeLarge) {
  HangingServer server;
  ControlClient client({.server = server.address(), .interrupted = {}, .credentials = {}});
  server.batches = 2000000;
  server.Answer();
  const auto next = client.NextSegment(NextSegmentRequest());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->segment().batches_size(), server.batches);
}

// The answers to NextSegment and to a heartbeat may overtake each other.
TEST(ControlClient, AServerIsNotForgottenForAnAnswerThatMayBeOlder) {
  HangingServer other;
  other.Answer();
  const std::string dead = "127.0.0.1:1";
  ControlClient client({.server = dead,
                        .find = {},
                        .deadline = std::chrono::seconds(2),
                        .interrupted = {},
                        .credentials = {}});
  Heartbeat heartbeat(&client, Joined(std::chrono::seconds(20)), NullLog());
  Leaders alone;
  alone.set_epoch(3);
  alone.add_addresses(dead);
  Leaders with = alone;
  with.add_addresses(other.address());
  heartbeat.SetLeaders(with);
  heartbeat.SetLeaders(alone);
  EXPECT_TRUE(client.NextSegment(NextSegmentRequest()).ok());
}

TEST(ControlClient, AnotherServerIsKnownFromTheAnswerToTheJoin) {
  HangingServer other;
  other.Answer();
  auto leader = std::make_unique<HangingServer>();
  leader->joined = Joined(std::chrono::seconds(20));
  leader->joined.mutable_leaders()->add_addresses(leader->address());
  leader->joined.mutable_leaders()->add_addresses(other.address());
  ControlClient client({.server = leader->address(),
                        .find = {},
                        .deadline = std::chrono::seconds(2),
                        .interrupted = {},
                        .credentials = {}});
  const auto joined = client.Join(JoinRequest());
  ASSERT_TRUE(joined.ok()) << joined.status();
  leader.reset();
  Heartbeat heartbeat(&client, *joined, NullLog());
  EXPECT_TRUE(heartbeat.Flush().ok());
  EXPECT_EQ(other.attempts().size(), 1u);
}

TEST(ControlClient, AServerThatMovedIsFound) {
  HangingServer server;
  server.Answer();
  int asked = 0;
  ControlClient client({.server = "127.0.0.1:1",
                        .find = [&]() -> absl::StatusOr<std::vector<std::string>> {
                          if (++asked == 1) return absl::UnavailableError("nobody knows yet");
                          return std::vector<std::string>{server.address()};
                        },
                        .interrupted = {},
                        .credentials = {}});
  EXPECT_TRUE(client.NextSegment(NextSegmentRequest()).ok());
  EXPECT_EQ(asked, 2);
}

// Servers that died are not asked in turn before the one that took over.
TEST(ControlClient, TheServerThatTookOverIsAskedNext) {
  HangingServer server;
  server.Answer();
  int asked = 0;
  std::vector<std::string> dead;
  for (int port = 1; port <= 100; ++port) dead.push_back(absl::StrCat("127.0.0.1:", port));
  ControlClient client({.server = absl::StrJoin(dead, ","),
                        .find = [&]() -> absl::StatusOr<std::vector<std::string>> {
                          ++asked;
                          std::vector<std::string> servers = dead;
                          servers.insert(servers.begin(), server.address());
                          return servers;
                        },
                        .interrupted = {},
                        .credentials = {}});
  EXPECT_TRUE(client.NextSegment(NextSegmentRequest()).ok());
  EXPECT_EQ(asked, 1);  // within a second, so before the others had their turn
}

// Waits itself, as for the run store, and says so.
class WaitingServer : public HangingServer {
 public:
  grpc::Status Heartbeat(grpc::ServerContext*, const HeartbeatRequest*, HeartbeatReply*) override {
    return grpc::Status::OK;
  }
  grpc::Status NextSegment(grpc::ServerContext*, const NextSegmentRequest*,
                           NextSegmentReply*) override {
    if (goes_on) return grpc::Status::OK;
    return {grpc::StatusCode::UNAVAILABLE, "waiting for the run store"};
  }
  std::atomic<bool> goes_on = false;
};

TEST(ControlClient, AServerThatAnswersHeartbeatsMayWaitForLonger) {
  WaitingServer server;
  ControlClient client({.server = server.address(),
                        .find = {},
                        .deadline = std::chrono::milliseconds(400),
                        .interrupted = {},
                        .credentials = {}});
  EXPECT_TRUE(absl::IsUnavailable(client.NextSegment(NextSegmentRequest()).status()));
  Heartbeat heartbeat(&client, Joined(std::chrono::milliseconds(400)), NullLog());
  heartbeat.Start();
  std::thread waits([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    server.goes_on = true;
  });
  EXPECT_TRUE(client.NextSegment(NextSegmentRequest()).ok());
  waits.join();
  heartbeat.Stop();
}

TEST(ControlClient, ACallThatHangsIsGivenUpWhenItsCallerIsInterrupted) {
  HangingServer server;
  ControlClient client({.server = server.address(),
                        .interrupted = [&]() -> absl::Status {
                          if (server.attempts().empty()) return absl::OkStatus();
                          return absl::CancelledError("no time left");
                        },
                        .credentials = {}});
  const auto reply = client.NextSegment(NextSegmentRequest());
  EXPECT_TRUE(absl::IsCancelled(reply.status())) << reply.status();
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("no time left"));
  EXPECT_EQ(server.attempts().size(), 1u);
  while (server.given_up() == 0)
    std::this_thread::yield();  // the server learns of it long before the deadline
}

}  // namespace
}  // namespace psgd
