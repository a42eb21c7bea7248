// Valid gRPC calls that are not a psgd stream, or that carry bytes that are not a psgd message.
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include "absl/strings/strip.h"
#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

class HostileGrpc : public testing::Test {
 protected:
  HostileGrpc() {
    listener_ = *transport_->Listen("tcp://127.0.0.1:0");
    absl::string_view target = listener_->address();
    absl::ConsumePrefix(&target, "tcp://");
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateChannel(std::string(target), grpc::InsecureChannelCredentials()));
  }

  // Waits for the operation that was just started.
  bool Completed() {
    void* tag;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  std::unique_ptr<Transport> transport_ = *MakeTransport(ClusterConfig::GRPC, TransportOptions());
  std::unique_ptr<Endpoint> listener_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
};

TEST_F(HostileGrpc, OtherMethodsAreRefusedWithAReason) {
  grpc::ClientContext context;
  auto call = stub_->PrepareCall(&context, "/psgd.Control/Join", &queue_);
  call->StartCall(nullptr);
  Completed();
  grpc::Status status;
  call->Finish(&status, nullptr);
  Completed();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_NE(status.error_message().find("data port"), std::string::npos);
}

TEST_F(HostileGrpc, OneTooManyIsTurnedAwayAndTheOthersStay) {
  TransportOptions options;
  options.peers = 3;
  const auto crowded = *MakeTransport(ClusterConfig::GRPC, options);
  const auto listener = *crowded->Listen("tcp://127.0.0.1:0");
  std::vector<std::unique_ptr<Endpoint>> peers;
  Message hello;
  hello.header.mutable_hello();
  const auto heard = [&] {
    peers.push_back(*transport_->Connect({listener->address()}));
    EXPECT_TRUE(peers.back()->Send(0, hello).ok());
    return listener->Receive(peers.size() > 3 ? Milliseconds(300) : kSoon).has_value();
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(heard());
  EXPECT_FALSE(heard());
  EXPECT_GE(listener->stats().over_budget, 1u);
  // When one peer leaves, there is room again.
  peers.erase(peers.begin());
  const Time end = SteadyNow() + kSoon;
  bool came_in = false;
  while (!came_in && SteadyNow() < end) {
    // The peer tries again. Its earlier message was lost with the refused call.
    (void)peers.back()->Receive(Milliseconds(10));
    (void)peers.back()->Send(0, hello);
    came_in = listener->Receive(Milliseconds(10)).has_value();
  }
  EXPECT_TRUE(came_in);
}

TEST_F(HostileGrpc, MalformedMessagesAreCountedAndDropped) {
  grpc::ClientContext context;
  auto call = stub_->PrepareCall(&context, "/psgd.DataPlane/Stream", &queue_);
  call->StartCall(nullptr);
  ASSERT_TRUE(Completed());
  const std::vector<std::string> garbage = {"", "x", std::string(100, '\0'),
                                            std::string(1u << 20, 'P')};
  for (size_t i = 0; i < garbage.size(); ++i) {
    const grpc::Slice slice(garbage[i]);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(Completed());
    EXPECT_FALSE(listener_->Receive(kSoon));
    EXPECT_EQ(listener_->stats().malformed, i + 1);
    EXPECT_NE(listener_->stats().last_malformed, "");
  }
  auto good = *transport_->Connect({listener_->address()});
  ASSERT_TRUE(good->Send(0, MakePush(1, {100})).ok());
  EXPECT_TRUE(ReceiveSoon(*listener_));
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  Completed();
}

}  // namespace
}  // namespace psgd
