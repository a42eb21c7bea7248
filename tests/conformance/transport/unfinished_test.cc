// A ZeroMQ listener closes connections with endless messages, and connections beyond its limit.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "net/address.h"
#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

constexpr size_t kMessage = 1u << 20;

// A connection that completes a ZMTP 3.0 handshake like ZeroMQ, and then sends bytes that no psgd
// program sends.
class Zmtp {
 public:
  explicit Zmtp(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(ParseAddress(address)->port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    std::string greeting("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
    greeting.resize(64, '\0');
    Write(greeting);
    Write(
        std::string("\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
                    "DEALER",
                    30));
  }
  ~Zmtp() { ::close(fd_); }

  // Sends a part of `size` bytes, with more parts to follow. False: the other side hung up.
  bool WritePart(size_t size) {
    std::string part("\x03\0\0\0\0\0\0\0\0", 9);
    for (size_t i = 0; i < 8; ++i) part[8 - i] = static_cast<char>(size >> (8 * i));
    part.resize(part.size() + size, 'x');
    return Write(part);
  }

  // Waits until the other side hangs up.
  void AwaitEnd() {
    char bytes[4096];
    while (::recv(fd_, bytes, sizeof bytes, 0) > 0) {
    }
  }

 private:
  bool Write(const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

  const int fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

TEST(Unfinished, AMessageWithoutEndEndsItsConnectionAlone) {
  TransportOptions options;
  options.max_message_bytes = kMessage;
  const auto transport = *MakeTransport(ClusterConfig::ZMQ, options);
  const auto listener = *transport->Listen("tcp://127.0.0.1:0");
  const auto good = *transport->Connect({listener->address()});
  std::atomic<bool> hung_up{false};
  std::atomic<bool> enough{false};
  std::thread endless([&] {
    Zmtp peer(listener->address());
    // Far more than a listener may keep. The end takes a while, since the listener looks only now
    // and then.
    for (int i = 0; i < 20'000 && !hung_up && !enough; ++i) hung_up = !peer.WritePart(kMessage / 2);
  });
  uint64_t seq = 0;
  const bool ended = Eventually([&] {
    EXPECT_TRUE(good->Send(0, MakePush(seq, {1000})).ok());
    const auto received = ReceiveSoon(*listener);
    EXPECT_TRUE(received && IsPush(received->message, seq, {1000}));
    EXPECT_FALSE(listener->Receive(Milliseconds(10)));
    ++seq;
    return hung_up.load();
  });
  enough = true;
  endless.join();
  EXPECT_TRUE(ended);
  EXPECT_EQ(listener->stats().over_budget, 1u);
  EXPECT_NE(listener->stats().last_turned_away.find("not yet a message"), std::string::npos);
  EXPECT_EQ(listener->stats().messages_received, seq);
}

TEST(Unfinished, AMessageWithoutEndEndsItsConnectionWhileTheListenerWaitsLong) {
  TransportOptions options;
  options.max_message_bytes = kMessage;
  const auto transport = *MakeTransport(ClusterConfig::ZMQ, options);
  const auto listener = *transport->Listen("tcp://127.0.0.1:0");
  std::thread endless([&] {
    Zmtp peer(listener->address());
    for (int i = 0; i < 20'000 && peer.WritePart(kMessage / 2); ++i) {
    }
    peer.AwaitEnd();
    listener->Wake();
  });
  EXPECT_FALSE(listener->Receive(std::chrono::hours(1)));
  endless.join();
  EXPECT_EQ(listener->stats().over_budget, 1u);
}

TEST(Unfinished, ManyWholeMessagesThatWaitAreNobodysFault) {
  TransportOptions options;
  options.max_message_bytes = kMessage;
  options.queue_bytes = 1u << 30;
  const auto transport = *MakeTransport(ClusterConfig::ZMQ, options);
  const auto listener = *transport->Listen("tcp://127.0.0.1:0");
  const auto connector = *transport->Connect({listener->address()});
  // More bytes than an unfinished message may have, left in the queue for several looks.
  constexpr uint64_t kCount = 100;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(connector->Send(0, MakePush(i, {kMessage - 1000})).ok());
    }
    std::this_thread::sleep_for(Milliseconds(250));
    for (uint64_t i = 0; i < kCount; ++i) {
      const auto received = ReceiveSoon(*listener);
      ASSERT_TRUE(received) << listener->stats().last_turned_away;
      EXPECT_EQ(received->message.header.push().seq(), i);
    }
    EXPECT_FALSE(listener->Receive(Milliseconds(150)));
  }
  EXPECT_EQ(listener->stats().over_budget, 0u);
}

}  // namespace
}  // namespace psgd
