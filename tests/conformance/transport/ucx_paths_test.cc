// Ways that UCX does not reach: auto takes ZeroMQ's, and a slow name server stops nobody else.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>

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
  SilentUcx() : socket_(*ListenForGreetings(*ParseTcpAddress("tcp://127.0.0.1:0"), &port_)) {
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

class UcxPaths : public testing::Test {
 protected:
  std::unique_ptr<Transport> TransportOf(ClusterConfig::Transport kind) {
    TransportOptions options;
    options.fast_network = true;
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
  static std::string DetourOf(const Endpoint& endpoint) { return endpoint.stats().detour; }

  std::string Said() const {
    std::string all;
    for (const std::string& line : said_->last_formatted()) all += line;
    return all;
  }

  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> said_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  const std::unique_ptr<Transport> zmq_ = TransportOf(ClusterConfig::ZMQ);
  const std::unique_ptr<Transport> auto_ = TransportOf(ClusterConfig::AUTO);
};

TEST_F(UcxPaths, ASilentWayGivesPlaceToZeroMq) {
  const SilentUcx silent;
  auto slow = *zmq_->Listen("tcp://127.0.0.1:0");
  auto fast = *auto_->Listen("tcp://127.0.0.1:0");
  AutoAddress elsewhere = *ParseAutoAddress(fast->address());
  elsewhere.machine = "another";
  auto connector = *auto_->Connect({Beside(*slow, silent.port()), elsewhere.ToString()});
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
  const std::string said = Said();
  const size_t first = said.find("UCX gets no answer");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("UCX gets no answer", first + 1), std::string::npos) << said;
}

// The port of the greetings is closed to this machine, or swallows what comes.
TEST_F(UcxPaths, APortThatIsClosedGivesPlaceToZeroMq) {
  int port = 0;
  const FileDescriptor accepts_nobody =
      *ListenForGreetings(*ParseTcpAddress("tcp://127.0.0.1:0"), &port);
  auto slow = *zmq_->Listen("tcp://127.0.0.1:0");
  auto connector = *auto_->Connect({Beside(*slow, port)});
  ASSERT_TRUE(SendUntilItComes(*connector, 0, *slow).has_value());
  EXPECT_THAT(DetourOf(*connector), HasSubstr("is that port open in the firewall?"));
}

// Without auto there is no other way.
TEST_F(UcxPaths, UcxAloneWarnsAndGoesOnTrying) {
  const SilentUcx silent;
  const auto ucx = TransportOf(ClusterConfig::UCX);
  auto connector = *ucx->Connect({"tcp://127.0.0.1:" + std::to_string(silent.port())});
  ASSERT_TRUE(Eventually([&] {
    (void)connector->Receive(Milliseconds(10));
    return Said().find("goes on trying; cluster.transport: zmq") != std::string::npos;
  }));
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

TEST_F(UcxPaths, TooFewFilesAreAnErrorWithTheFigures) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 12;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status status = TransportOf(ClusterConfig::UCX)->Listen("tcp://127.0.0.1:0").status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("UCX: "), HasSubstr("files open and may have 12")));
}

}  // namespace
}  // namespace psgd
