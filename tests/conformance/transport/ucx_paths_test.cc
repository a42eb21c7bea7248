// Ways that UCX does not reach: auto takes ZeroMQ's, and a slow name server stops nobody else.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "net/auto/auto_address.h"
#include "net/ucx/greeting.h"
#include "net/ucx/ucx_worker.h"
#include "tests/conformance/transport/transport_case.h"

namespace {

constexpr char kSlowHost[] = "slow.invalid";
std::atomic<bool> name_server_stands{false};

}  // namespace

// In place of the C library's: lets one name wait, and asks the C library for all others.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  const bool digits = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (node != nullptr && std::string(node) == kSlowHost && !digits) {
    while (name_server_stands) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return EAI_AGAIN;
  }
  static const auto next =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return next(node, service, hints, found);
}

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Greets as a UCX listener does, and never takes a message: as behind a firewall.
class SilentUcx {
 public:
  // `port`: 0 takes a free one.
  explicit SilentUcx(int port = 0)
      : socket_(*ListenForGreetings(*ParseTcpAddress("tcp://127.0.0.1:" + std::to_string(port)),
                                    &port_)) {
    thread_ = std::thread([this] {
      std::vector<FileDescriptor> peers;
      while (!ending_) {
        FileDescriptor peer(::accept(socket_.get(), nullptr, nullptr));
        if (!peer.open()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        EXPECT_TRUE(SendGreeting(peer.get(), {.number = 1, .worker = worker_->address()}).ok());
        peers.push_back(std::move(peer));
      }
    });
  }
  ~SilentUcx() {
    ending_ = true;
    thread_.join();
  }
  int port() const { return port_; }

 private:
  int port_ = 0;
  const FileDescriptor socket_;
  const std::unique_ptr<UcxWorker> worker_ = *UcxWorker::Create(UcxWorker::Reach::kThisMachine);
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// As long as it lives, this process can open no further file.
class FewFiles {
 public:
  FewFiles() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;
    few.rlim_cur = 12;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewFiles() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

constexpr Duration kShort = std::chrono::seconds(1);  // patience of tests that wait for its end

class UcxPaths : public testing::Test {
 protected:
  std::unique_ptr<Transport> TransportOf(ClusterConfig::Transport kind,
                                         Duration patience = TransportOptions().patience) {
    TransportOptions options;
    options.fast_network = true;
    options.patience = patience;
    options.log = std::make_shared<spdlog::logger>("test", said_);
    return *MakeTransport(kind, options);
  }
  // A ZeroMQ listener, beside which UCX is said to have that port.
  static std::string Beside(const Endpoint& zmq, int ucx_port) {
    return AutoAddress{.tcp = zmq.address(), .ucx = ucx_port, .ipc = "", .machine = "another"}
        .ToString();
  }
  // Sends pushes to peer `to` until one comes.
  static std::optional<Received> SendUntilItComes(Endpoint& from, PeerId to, Endpoint& listener) {
    std::optional<Received> received;
    EXPECT_TRUE(Eventually([&] {
      (void)from.Send(to, MakePush(1, {100}));
      (void)from.Receive(Duration::zero());
      received = listener.Receive(Milliseconds(10));
      return received.has_value();
    }));
    return received;
  }
  static int ClosedPort() {
    int port = 0;
    EXPECT_TRUE(ListenForGreetings(*ParseTcpAddress("tcp://127.0.0.1:0"), &port).ok());
    return port;
  }
  // As a worker on another machine sees the address.
  static std::string Elsewhere(const Endpoint& listener) {
    AutoAddress address = *ParseAutoAddress(listener.address());
    address.machine = "another";
    return address.ToString();
  }
  static std::string DetourOf(const Endpoint& endpoint) { return endpoint.stats().detour; }

  std::string Said() const {
    std::string all;
    for (const std::string& line : said_->last_formatted()) all += line;
    return all;
  }

  size_t Count(const std::string& text) const {
    const std::string said = Said();
    size_t count = 0;
    for (size_t at = said.find(text); at != std::string::npos; at = said.find(text, at + 1))
      ++count;
    return count;
  }
  bool Says(const std::string& text) const { return Count(text) > 0; }

  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> said_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  const std::unique_ptr<Transport> zmq_ = TransportOf(ClusterConfig::ZMQ);
  const std::unique_ptr<Transport> auto_ = TransportOf(ClusterConfig::AUTO);
};

TEST_F(UcxPaths, ASilentWayGivesPlaceToZeroMq) {
  const SilentUcx silent;
  auto slow = *zmq_->Listen("tcp://127.0.0.1:0");
  auto fast = *auto_->Listen("tcp://127.0.0.1:0");
  // Long enough for the way that works to answer on a busy machine.
  const auto transport = TransportOf(ClusterConfig::AUTO, 2 * kShort);
  auto connector = *transport->Connect({Beside(*slow, silent.port()), Elsewhere(*fast)});
  EXPECT_EQ(DetourOf(*connector), "");

  // The other way serves its peer from the beginning.
  ASSERT_TRUE(SendUntilItComes(*connector, 1, *fast).has_value());
  const auto received = SendUntilItComes(*connector, 0, *slow);
  ASSERT_TRUE(received.has_value());
  ASSERT_TRUE(slow->Send(received->from, MakePush(2, {100})).ok());
  std::optional<Received> reply;
  ASSERT_TRUE(Eventually([&] { return (reply = ReceiveSoon(*connector)).has_value(); }));
  EXPECT_EQ(reply->from, 0u);
  ASSERT_TRUE(SendUntilItComes(*connector, 1, *fast).has_value());

  EXPECT_THAT(DetourOf(*connector),
              AllOf(HasSubstr("UCX gets no answer from tcp://127.0.0.1:" +
                              std::to_string(silent.port()) + " over tcp/lo"),
                    HasSubstr("UCX_NET_DEVICES"), HasSubstr("data of 1 shard go over ZeroMQ"),
                    HasSubstr("cluster.transport: zmq")));
  EXPECT_EQ(Count("UCX gets no answer"), 1u) << Said();
}

// The port of the greetings is closed to this machine, or swallows what comes.
TEST_F(UcxPaths, APortThatIsClosedGivesPlaceToZeroMq) {
  int port = 0;
  const FileDescriptor accepts_nobody =
      *ListenForGreetings(*ParseTcpAddress("tcp://127.0.0.1:0"), &port);
  auto slow = *zmq_->Listen("tcp://127.0.0.1:0");
  const auto transport = TransportOf(ClusterConfig::AUTO, kShort);
  auto connector = *transport->Connect({Beside(*slow, port)});
  ASSERT_TRUE(SendUntilItComes(*connector, 0, *slow).has_value());
  EXPECT_THAT(DetourOf(*connector), HasSubstr("is that port open in the firewall?"));
}

// Without auto there is no other way. A message waits for the answer that comes at last.
TEST_F(UcxPaths, UcxAloneWarnsAndGoesOnTrying) {
  const auto ucx = TransportOf(ClusterConfig::UCX, kShort);
  std::optional<SilentUcx> silent(std::in_place);
  const std::string address = "tcp://127.0.0.1:" + std::to_string(silent->port());
  auto connector = *ucx->Connect({address});
  ASSERT_TRUE(connector->Send(0, MakePush(1, {100})).ok());
  ASSERT_TRUE(Eventually([&] {
    (void)connector->Receive(Milliseconds(10));
    return Says("goes on trying; cluster.transport: zmq");
  }));
  const char* const kinds = std::getenv("UCX_TLS");  // CMakeLists.txt sets it for one entry
  EXPECT_TRUE(Says(kinds == nullptr ? "over tcp/lo" : "over posix/memory")) << Said();
  silent.reset();
  auto listener = *ucx->Listen(address);
  std::optional<Received> received;
  ASSERT_TRUE(Eventually([&] {
    (void)connector->Receive(Duration::zero());
    received = listener->Receive(Milliseconds(10));
    return received.has_value();
  }));
  EXPECT_TRUE(IsPush(received->message, 1, {100}));
}

// As a worker that computes, or is stopped, before its first message.
TEST_F(UcxPaths, PatienceRunsOnlyWhileSomebodyListensForAnswers) {
  const auto transport = TransportOf(ClusterConfig::AUTO, kShort);
  auto listener = *transport->Listen("tcp://127.0.0.1:0");
  auto connector = *transport->Connect({Elsewhere(*listener)});
  std::this_thread::sleep_for(3 * kShort);
  (void)connector->Receive(Duration::zero());
  ASSERT_TRUE(SendUntilItComes(*connector, 0, *listener).has_value());
  EXPECT_EQ(DetourOf(*connector), "");
  ASSERT_TRUE(Eventually([&] {
    (void)connector->Receive(Duration::zero());
    return Says("UCX reaches 1 of 1 shards");
  }));
}

// The owner of the listener computes, and its other peers have sent nothing for long.
TEST_F(UcxPaths, AListenerAnswersWhileItsOwnerIsAway) {
  auto listener = *auto_->Listen("tcp://127.0.0.1:0");
  auto first = *auto_->Connect({Elsewhere(*listener)});
  ASSERT_TRUE(SendUntilItComes(*first, 0, *listener).has_value());
  const Time until = SteadyNow() + std::chrono::milliseconds(1500);
  while (SteadyNow() < until) (void)listener->Receive(Milliseconds(100));
  const size_t before = Count("UCX reaches");
  auto second = *auto_->Connect({Elsewhere(*listener)});
  ASSERT_TRUE(Eventually([&] {
    (void)second->Receive(Milliseconds(10));
    return Count("UCX reaches 1 of 1 shards") > before;
  }));
}

// As after a move of shards, which connects to all of them again.
TEST_F(UcxPaths, AHostThatWasGivenUpIsNotAskedAgain) {
  const auto transport = TransportOf(ClusterConfig::AUTO, kShort);
  const SilentUcx silent;
  auto slow = *zmq_->Listen("tcp://127.0.0.1:0");
  const std::vector<std::string> addresses = {Beside(*slow, silent.port())};
  auto connector = *transport->Connect(addresses);
  ASSERT_TRUE(SendUntilItComes(*connector, 0, *slow).has_value());
  const std::string detour = DetourOf(*connector);
  connector = *transport->Connect(addresses);
  EXPECT_EQ(DetourOf(*connector), detour);
  ASSERT_TRUE(connector->Send(0, MakePush(7, {100})).ok());
  ASSERT_TRUE(Eventually([&] {
    const auto received = slow->Receive(Milliseconds(10));
    return received && IsPush(received->message, 7, {100});
  }));
  EXPECT_EQ(Count("UCX gets no answer"), 1u);
}

// ZeroMQ takes over once it gets the files for it.
TEST_F(UcxPaths, ZeroMqThatCannotStartIsTriedAgain) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan opens a pipe to check virtual calls, and there are no files for it";
#endif
  const auto transport = TransportOf(ClusterConfig::AUTO, kShort);
  auto slow = *zmq_->Listen("tcp://127.0.0.1:0");
  auto connector = *transport->Connect({Beside(*slow, ClosedPort())});
  {
    const FewFiles few;
    ASSERT_TRUE(Eventually([&] {
      (void)connector->Receive(Milliseconds(10));
      return Says("this is tried again");
    }));
  }
  ASSERT_TRUE(SendUntilItComes(*connector, 0, *slow).has_value());
  EXPECT_THAT(DetourOf(*connector), HasSubstr("data of 1 shard go over ZeroMQ"));
}

// The way that carried messages breaks, and only the connection for greetings comes back.
TEST_F(UcxPaths, AWayThatFallsSilentLaterGivesPlaceToZeroMq) {
  const auto transport = TransportOf(ClusterConfig::AUTO, kShort);
  auto slow = *zmq_->Listen("tcp://127.0.0.1:0");
  auto ucx = *TransportOf(ClusterConfig::UCX)->Listen("tcp://127.0.0.1:0");
  const int port = ParseTcpAddress(ucx->address())->port;
  auto connector = *transport->Connect({Beside(*slow, port)});
  ASSERT_TRUE(SendUntilItComes(*connector, 0, *ucx).has_value());
  ucx.reset();
  const SilentUcx silent(port);
  ASSERT_TRUE(SendUntilItComes(*connector, 0, *slow).has_value());
  EXPECT_THAT(DetourOf(*connector), HasSubstr("UCX gets no answer"));
}

TEST_F(UcxPaths, WhyAShardIsNotReachedIsTold) {
  const auto transport = TransportOf(ClusterConfig::AUTO, kShort);
  auto slow = *zmq_->Listen("tcp://127.0.0.1:0");
  auto connector = *transport->Connect({Beside(*slow, ClosedPort())});
  ASSERT_TRUE(SendUntilItComes(*connector, 0, *slow).has_value());
  EXPECT_THAT(DetourOf(*connector), HasSubstr("(Connection refused; is that port open"));
}

TEST_F(UcxPaths, ASlowNameServerStopsNobodyElse) {
  const auto ucx = TransportOf(ClusterConfig::UCX);
  auto listener = *ucx->Listen("tcp://127.0.0.1:0");
  name_server_stands = true;
  auto connector = *ucx->Connect({std::string("tcp://") + kSlowHost + ":7", listener->address()});
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(connector->Send(1, MakePush(i, {1000})).ok());
    auto received = ReceiveSoon(*listener);
    ASSERT_TRUE(received);
    ASSERT_TRUE(listener->Send(received->from, received->message).ok());
    ASSERT_TRUE(ReceiveSoon(*connector));
  }
  name_server_stands = false;
}

// Whether they come at once or are fetched.
TEST(UcxMessages, LargePayloadsBehindSmallOnesAreNotCopied) {
  const auto transport = *MakeTransport(ClusterConfig::UCX, {});
  auto [listener, connector] = Connected(*transport, "tcp://127.0.0.1:0");
  for (const size_t large : {size_t{24} << 10, size_t{1} << 20}) {
    for (const std::vector<size_t>& sizes :
         {std::vector<size_t>{1100, large, large}, std::vector<size_t>{7000, 4000, large, large}}) {
      ASSERT_TRUE(connector->Send(0, MakePush(1, sizes)).ok());
      const auto received = ReceiveSoon(*listener);
      ASSERT_TRUE(received);
      EXPECT_TRUE(IsPush(received->message, 1, sizes));
      // Copies have owners of their own.
      const std::span<const Bytes> last = std::span(received->message.payloads).last(2);
      EXPECT_EQ(last[0].owner(), last[1].owner()) << sizes[0] << ", " << large;
    }
  }
}

TEST_F(UcxPaths, TooFewFilesAreAnErrorWithTheFigures) {
  const auto transport = TransportOf(ClusterConfig::UCX);
  const absl::Status status = [&] {
    const FewFiles few;
    return transport->Listen("tcp://127.0.0.1:0").status();
  }();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("UCX: "), HasSubstr("files open and may have 12")));
}

}  // namespace
}  // namespace psgd
