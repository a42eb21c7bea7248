// Names of several addresses over ZeroMQ.
#include "net/zmq/address_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "net/zmq/zmq_connector.h"

namespace psgd {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(2);
constexpr Duration kPatience = std::chrono::seconds(20);

// Nobody listens at the first and the second.
absl::StatusOr<std::vector<SocketAddress>> ThreeHosts(const std::string&, int port) {
  std::vector<SocketAddress> addresses;
  for (const char* host : {"127.0.0.9", "127.0.0.8", "127.0.0.1"}) {
    addresses.push_back(Resolve(host, port)->front());
  }
  return addresses;
}

Message Hello(uint32_t worker) {
  Message message;
  message.header.set_worker(worker);
  message.header.mutable_hello();
  return message;
}

// Sends until the message with that number has come.
bool Reaches(Endpoint& from, Endpoint& to, uint32_t worker) {
  const Time until = SteadyNow() + kPatience;
  while (SteadyNow() < until) {
    (void)from.Send(0, Hello(worker));
    from.Receive(kLook);
    while (const auto received = to.Receive(kLook)) {
      if (received->message.header.worker() == worker) return true;
    }
  }
  return false;
}

TEST(AddressTurns, EachAddressOfANameIsTried) {
  TransportOptions options;
  options.linger = Duration(0);
  auto listener = *ListenZmq("tcp://127.0.0.1:0", options);
  const std::string address = listener->address();
  ZmqConnector connector(options, &ThreeHosts);
  ASSERT_TRUE(
      connector.Connect({absl::StrCat("tcp://name", address.substr(address.rfind(':')))}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(connector.Send(0, Hello(1)))) << "it would be lost";
  EXPECT_TRUE(Reaches(connector, *listener, 2));

  listener.reset();
  const Time until = SteadyNow() + Milliseconds(200);  // other addresses are tried
  while (SteadyNow() < until) connector.Receive(kLook);
  listener = *ListenZmq(address, options);
  EXPECT_TRUE(Reaches(connector, *listener, 3));
}

TEST(ZmqConnector, HasIoThreadsByShardsAndCores) {
  EXPECT_EQ(IoThreads(8, 2), 1);
  EXPECT_EQ(IoThreads(8, 8), 2);
  EXPECT_EQ(IoThreads(1, 64), 1);
  EXPECT_EQ(IoThreads(0, 64), 1);
  EXPECT_EQ(IoThreads(8, 64), 4);

  const auto running = [] {
    int count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      count += name.starts_with("ZMQbg/IO");
    }
    return count;
  };
  // Threads of earlier tests may still be on their way out, and each thread takes its name by
  // itself.
  const Time until = SteadyNow() + kPatience;
  while (running() > 0 && SteadyNow() < until) std::this_thread::yield();
  ZmqConnector connector({}, &Resolve, 3);
  ASSERT_TRUE(connector.Connect({"tcp://127.0.0.1:7"}).ok());
  while (running() < 3 && SteadyNow() < until) connector.Receive(kLook);
  EXPECT_EQ(running(), 3);
}

TEST(ZmqListener, ListensAtAName) {
  const auto listener = ListenZmq("tcp://localhost:0", {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_THAT((*listener)->address(), testing::StartsWith("tcp://127.0.0.1:"));
}

}  // namespace
}  // namespace psgd
