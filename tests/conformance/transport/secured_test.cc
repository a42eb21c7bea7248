// A secured listener refuses strangers, and they can do nothing.
#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

class Secured : public testing::TestWithParam<ClusterConfig::Transport> {
 protected:
  Secured() { Listen(SecuredTransport::ListeningSecurity()); }

  void Listen(TransportSecurity security) {
    allowed_ = std::const_pointer_cast<AllowList>(security.allowed);
    listener_ = *Make(std::move(security))->Listen("tcp://127.0.0.1:0");
  }
  static std::unique_ptr<Transport> Make(TransportSecurity security) {
    TransportOptions options;
    options.linger = Milliseconds(100);
    options.security = std::make_shared<const TransportSecurity>(std::move(security));
    return *MakeTransport(GetParam(), options);
  }
  std::unique_ptr<Endpoint> Connect(TransportSecurity security) {
    return *Make(std::move(security))->Connect({listener_->address()});
  }
  // Checks that the stranger's messages do not arrive, and a member's do. Returns once `counted`
  // holds.
  void ExpectTurnedAway(Endpoint& stranger, const std::function<bool()>& counted) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(stranger.Send(0, MakePush(66, {100})).ok());
    ASSERT_TRUE(Eventually([&] {
      EXPECT_FALSE(listener_->Receive(Milliseconds(20)));
      EXPECT_FALSE(stranger.Receive(Milliseconds(0)));
      return counted();
    })) << listener_->stats().last_turned_away;
    EXPECT_TRUE(strangers() == 0 || !listener_->stats().last_turned_away.empty());
    const auto member = Connect(SecuredTransport::ConnectingSecurity());
    ASSERT_TRUE(member->Send(0, MakePush(1, {100})).ok());
    const auto received = ReceiveSoon(*listener_);
    ASSERT_TRUE(received);
    EXPECT_TRUE(IsPush(received->message, 1, {100}));
    ASSERT_TRUE(listener_->Send(received->from, received->message).ok());
    EXPECT_TRUE(ReceiveSoon(*member));
  }
  uint64_t strangers() const { return listener_->stats().strangers; }
  uint64_t impostors() const { return listener_->stats().impostors; }

  std::shared_ptr<AllowList> allowed_;
  std::unique_ptr<Endpoint> listener_;
};

TEST_P(Secured, APassThatNobodyHas) {
  TransportSecurity unknown = SecuredTransport::ConnectingSecurity();
  unknown.curve = MakeCurveKeys();
  unknown.token = MakeToken();
  const auto stranger = Connect(unknown);
  ExpectTurnedAway(*stranger, [&] { return strangers() > 0; });
  EXPECT_EQ(impostors(), 0u);
}

TEST_P(Secured, NoSecurityAtAll) {
  TransportOptions plain;
  plain.linger = Milliseconds(100);
  const auto stranger = *(*MakeTransport(GetParam(), plain))->Connect({listener_->address()});
  // gRPC does not report failed handshakes.
  ExpectTurnedAway(*stranger, [&] { return GetParam() == ClusterConfig::GRPC || strangers() > 0; });
}

TEST_P(Secured, AMemberInTheNameOfAnother) {
  allowed_->Admit(8, 1, {.curve_key = MakeCurveKeys().public_key, .token = MakeToken()});
  const auto member = Connect(SecuredTransport::ConnectingSecurity());
  Message push = MakePush(1, {100});
  for (const auto& [worker, incarnation] : {std::pair(8, 1), std::pair(7, 1), std::pair(8, 0)}) {
    const uint64_t before = impostors();
    push.header.set_worker(worker);
    push.header.set_incarnation(incarnation);
    ASSERT_TRUE(member->Send(0, push).ok());
    ASSERT_TRUE(Eventually([&] {
      EXPECT_FALSE(listener_->Receive(Milliseconds(20)));
      return impostors() == before + 1;
    }));
  }
  EXPECT_EQ(listener_->stats().messages_sent, 0u);
  ASSERT_TRUE(member->Send(0, MakePush(2, {100})).ok());
  EXPECT_TRUE(ReceiveSoon(*listener_));
}

TEST_P(Secured, OneThatLeftIsNotHeardAnyMore) {
  const auto member = Connect(SecuredTransport::ConnectingSecurity());
  ASSERT_TRUE(member->Send(0, MakePush(1, {100})).ok());
  ASSERT_TRUE(ReceiveSoon(*listener_));
  allowed_->Remove(7, 0);
  // Tested on the member's old connection and on a new one.
  ASSERT_TRUE(member->Send(0, MakePush(2, {100})).ok());
  ASSERT_TRUE(Eventually([&] {
    EXPECT_FALSE(listener_->Receive(Milliseconds(20)));
    return impostors() == 1;
  }));
  const auto again = Connect(SecuredTransport::ConnectingSecurity());
  ASSERT_TRUE(again->Send(0, MakePush(3, {100})).ok());
  ASSERT_TRUE(Eventually([&] {
    EXPECT_FALSE(listener_->Receive(Milliseconds(20)));
    return strangers() > 0;
  }));
}

TEST_P(Secured, AServerThatIsNotTheOne) {
  TransportSecurity fooled = SecuredTransport::ConnectingSecurity();
  fooled.server_curve_key = MakeCurveKeys().public_key;
  fooled.server_name = "elsewhere.example";
  const auto member = Connect(fooled);
  ExpectTurnedAway(*member, [&] { return GetParam() == ClusterConfig::GRPC || strangers() > 0; });
}

INSTANTIATE_TEST_SUITE_P(All, Secured, testing::Values(ClusterConfig::ZMQ, ClusterConfig::GRPC),
                         [](const auto& info) {
                           return info.param == ClusterConfig::ZMQ ? "Curve" : "Tls";
                         });

// UCX cannot keep strangers out, so a secured run does not begin with it.
TEST(UcxInASecuredRun, IsRefused) {
  TransportOptions options;
  options.security = std::make_shared<const TransportSecurity>();
  const auto transport = MakeTransport(ClusterConfig::UCX, options);
  EXPECT_EQ(transport.status().code(), absl::StatusCode::kUnimplemented) << transport.status();
  EXPECT_NE(transport.status().message().find("auto, zmq or grpc"), absl::string_view::npos)
      << transport.status();
}

}  // namespace
}  // namespace psgd
