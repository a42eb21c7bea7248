// A secured server's data ports against clients with no pass, or with another worker's pass: the
// weights do not change.
#include <cstring>
#include <memory>

#include "net/transport.h"
#include "net/transport_security.h"
#include "net/wire_format.h"
#include "tests/certificates/certificates.h"
#include "tests/system/run_test.h"
#include "worker/control_client.h"

namespace psgd {
namespace {

constexpr size_t kElements = 100;

// A worker that makes the calls of a ps-worker by hand.
class Member {
 public:
  Member(const std::string& server, std::shared_ptr<const Credentials> credentials,
         const std::string& name)
      : client_({.server = server,
                 .deadline = Milliseconds(20000),
                 .interrupted = {},
                 .credentials = credentials}) {
    security_.credentials = credentials;
    security_.curve = MakeCurveKeys();
    security_.server_name = "localhost";
    JoinRequest request;
    request.set_name(name);
    request.set_protocol(kProtocolVersion);
    request.set_curve_key(security_.curve.public_key);
    const auto joined = client_.Join(request);
    EXPECT_TRUE(joined.ok()) << joined.status();
    if (!joined.ok()) return;
    key_ = joined->key();
    client_.SetToken(joined->token());
    security_.token = joined->token();
    security_.server_curve_key = joined->curve_key();
  }

  // Registers. Afterwards the shards have their weights and expect the worker's pushes.
  void Begin() {
    RegisterRequest request;
    *request.mutable_key() = key_;
    ParameterSpec* parameter = request.mutable_model()->add_parameters();
    parameter->set_name("w");
    parameter->add_shape(kElements);
    request.set_train_samples(2048);
    request.set_batches_per_epoch(64);
    const auto registered = client_.Register(request);
    ASSERT_TRUE(registered.ok()) << registered.status();
    endpoint_ = registered->placement().endpoints(0);
    NextSegmentRequest next;
    *next.mutable_key() = key_;
    next.set_first(true);
    const auto segment = client_.NextSegment(next);
    ASSERT_TRUE(segment.ok()) << segment.status();
    EXPECT_EQ(segment->kind(), NextSegmentReply::RUN);
  }

  // The first push of the worker `key`: ones for all elements.
  static Message Push(const WorkerKey& key) {
    Message message;
    message.header.set_worker(key.worker());
    message.header.set_incarnation(key.incarnation());
    psgd::Push* push = message.header.mutable_push();
    push->set_seq(1);
    push->set_clock(1);
    push->set_end_of_clock(true);
    push->add_parts()->set_codec(CODEC_NONE);
    std::vector<std::byte> payload(kElements * sizeof(float));
    for (size_t i = 0; i < kElements; ++i) {
      const float one = 1;
      std::memcpy(payload.data() + i * sizeof one, &one, sizeof one);
    }
    message.payloads.push_back(Bytes::Adopt(std::move(payload)));
    return message;
  }
  static Message Pull(const WorkerKey& key) {
    Message message;
    message.header.set_worker(key.worker());
    message.header.set_incarnation(key.incarnation());
    message.header.mutable_pull()->set_request(1);
    return message;
  }

  ControlClient& client() { return client_; }
  const WorkerKey& key() const { return key_; }
  const std::string& endpoint() const { return endpoint_; }
  const TransportSecurity& security() const { return security_; }

 private:
  ControlClient client_;
  TransportSecurity security_;
  WorkerKey key_;
  std::string endpoint_;
};

class DataPlaneSecurity : public RunTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    server_ = std::make_unique<Process>(
        std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0", "--run-dir",
                                 Path("run"), "--tls-dir", certificates_.dir()} +
        Sets({"cluster.shards=1", "cluster.workers=1", "consistency.staleness=unbounded",
              "cluster.lease=30s", "cluster.deadline=40s", "cluster.transport=" + GetParam()}));
    address_ = ServerOf(*server_);
    ASSERT_FALSE(address_.empty()) << server_->Err();
    member_ = Join("member");
    member_->Begin();
    admin_ = std::make_unique<ControlClient>(ControlClientOptions{.server = address_,
                                                                  .deadline = Milliseconds(20000),
                                                                  .interrupted = {},
                                                                  .credentials = Load("admin")});
  }

  void TearDown() override {
    server_.reset();
    RunTest::TearDown();
  }

  std::shared_ptr<const Credentials> Load(const std::string& name) const {
    return *LoadCredentials(CredentialFilesIn(certificates_.dir(), name));
  }
  std::unique_ptr<Member> Join(const std::string& name) const {
    return std::make_unique<Member>(address_, Load("worker"), name);
  }
  std::unique_ptr<Endpoint> Connect(const TransportSecurity* security) const {
    TransportOptions options;
    options.linger = Milliseconds(100);
    if (security != nullptr)
      options.security = std::make_shared<const TransportSecurity>(*security);
    const auto kind = GetParam() == "grpc" ? ClusterConfig::GRPC : ClusterConfig::ZMQ;
    return *(*MakeTransport(kind, options))->Connect({member_->endpoint()});
  }
  std::string Weights() const {
    std::string weights;
    const absl::Status status = admin_->Weights([&](const WeightsChunk& chunk) {
      weights += chunk.values();
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(weights.size(), kElements * sizeof(float));
    return weights;
  }
  uint64_t Refused(const std::string& reason) const {
    const auto status = admin_->Status(StatusRequest());
    EXPECT_TRUE(status.ok()) << status.status();
    const auto& refused = status->shards(0).refused();
    return refused.contains(reason) ? refused.at(reason) : 0;
  }
  // Expects that no push is absorbed and no pull is answered.
  void ExpectNothingComes(Endpoint& endpoint) const {
    const std::string before = Weights();
    for (int i = 0; i < 5; ++i) {
      // Without a connection the messages may not even leave.
      endpoint.Send(0, Member::Push(member_->key())).IgnoreError();
      endpoint.Send(0, Member::Pull(member_->key())).IgnoreError();
      EXPECT_FALSE(endpoint.Receive(Milliseconds(100)));
    }
    EXPECT_TRUE(Weights() == before);
    const auto status = admin_->Status(StatusRequest());
    EXPECT_EQ(status->shards(0).pushes() + status->shards(0).pulls(), 0u);
  }

  const Certificates certificates_;
  std::unique_ptr<Process> server_;
  std::string address_;
  std::unique_ptr<Member> member_;
  std::unique_ptr<ControlClient> admin_;
};

TEST_P(DataPlaneSecurity, TheMemberItselfPushesAndPulls) {
  const auto endpoint = Connect(&member_->security());
  const std::string before = Weights();
  ASSERT_TRUE(endpoint->Send(0, Member::Push(member_->key())).ok());
  auto acknowledged = endpoint->Receive(std::chrono::seconds(20));
  ASSERT_TRUE(acknowledged);
  EXPECT_TRUE(acknowledged->message.header.has_push_ack())
      << acknowledged->message.header.ShortDebugString();
  EXPECT_FALSE(Weights() == before);
  ASSERT_TRUE(endpoint->Send(0, Member::Pull(member_->key())).ok());
  const auto pulled = endpoint->Receive(std::chrono::seconds(20));
  ASSERT_TRUE(pulled);
  EXPECT_EQ(pulled->message.PayloadBytes(), kElements * sizeof(float));
}

TEST_P(DataPlaneSecurity, WithoutSecurity) {
  const auto endpoint = Connect(nullptr);
  ExpectNothingComes(*endpoint);
  // gRPC does not report failed handshakes.
  EXPECT_TRUE(GetParam() == "grpc" || Eventually([&] { return Refused("stranger") > 0; }));
}

TEST_P(DataPlaneSecurity, WithAPassThatTheServerDidNotHandOut) {
  TransportSecurity unknown = member_->security();
  unknown.curve = MakeCurveKeys();
  unknown.token = MakeToken();
  const auto endpoint = Connect(&unknown);
  ExpectNothingComes(*endpoint);
  EXPECT_TRUE(Eventually([&] { return Refused("stranger") > 0; }));
}

TEST_P(DataPlaneSecurity, InTheNameOfAnotherWorker) {
  const auto other = Join("other");
  ASSERT_NE(other->key().worker(), member_->key().worker());
  const auto endpoint = Connect(&other->security());
  ExpectNothingComes(*endpoint);
  EXPECT_TRUE(Eventually([&] { return Refused("impostor") > 0; }));
  // The other worker can neither leave nor report in this worker's name.
  LeaveRequest leave;
  *leave.mutable_key() = member_->key();
  EXPECT_TRUE(absl::IsPermissionDenied(other->client().Leave(leave).status()));
  HeartbeatRequest heartbeat;
  *heartbeat.mutable_key() = member_->key();
  EXPECT_TRUE(absl::IsPermissionDenied(other->client().Heartbeat(heartbeat).status()));
  const auto status = admin_->Status(StatusRequest());
  EXPECT_EQ(status->refused().at("not_itself"), 2u);
  EXPECT_TRUE(status->workers(0).live());
}

TEST_P(DataPlaneSecurity, AfterItLeft) {
  LeaveRequest leave;
  *leave.mutable_key() = member_->key();
  ASSERT_TRUE(member_->client().Leave(leave).ok());
  const auto endpoint = Connect(&member_->security());
  ExpectNothingComes(*endpoint);
  EXPECT_TRUE(Eventually([&] { return Refused("stranger") > 0; }));
}

INSTANTIATE_TEST_SUITE_P(All, DataPlaneSecurity, testing::Values("zmq", "grpc"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace psgd
