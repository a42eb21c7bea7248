// A follower and what it takes for a leader.
#include "server/control/follower.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "proto/replication.grpc.pb.h"

namespace psgd {
namespace {

using testing::HasSubstr;

// Takes followers, and says nothing: as a leader that was stopped once it was reached.
class SilentLeader : public Replication::Service {
 public:
  SilentLeader() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~SilentLeader() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int asked() const { return asked_; }

  grpc::Status Follow(grpc::ServerContext*,
                      grpc::ServerReaderWriter<LogPart, FollowerSays>* stream) override {
    ++asked_;
    FollowerSays says;
    while (stream->Read(&says)) {
    }
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int> asked_{0};
};

TEST(Follower, DoesNotWaitForALeaderThatSaysNothing) {
  SilentLeader first, second;
  FollowerOptions options;
  options.leaders = {first.address(), second.address()};
  options.host = "127.0.0.1";
  options.connect_deadline = std::chrono::milliseconds(300);
  options.interrupted = [] { return absl::OkStatus(); };
  const auto follower = Follower::Connect(std::move(options));
  EXPECT_TRUE(absl::IsUnavailable(follower.status())) << follower.status();
  EXPECT_THAT(std::string(follower.status().message()),
              HasSubstr(second.address() + ": it says nothing"));
  EXPECT_EQ(first.asked(), 1);
  EXPECT_EQ(second.asked(), 1) << "another may lead";
}

}  // namespace
}  // namespace psgd
