// Sends bytes of other protocols to a listener's port. The listener is unharmed and still serves
// other peers.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "net/address.h"
#include "tests/conformance/transport/transport_case.h"

namespace psgd {
namespace {

// A plain socket connected to a listener.
class RawSocket {
 public:
  explicit RawSocket(const std::string& text) {
    const Address address = *ParseAddress(text.substr(0, text.find(' ')));  // of two, over TCP
    if (address.scheme == Address::Scheme::kIpc) {
      sockaddr_un to{};
      to.sun_family = AF_UNIX;
      std::memcpy(to.sun_path + 1, address.name.data(), address.name.size());
      Connect(AF_UNIX, &to, offsetof(sockaddr_un, sun_path) + 1 + address.name.size());
    } else {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<uint16_t>(address.port));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      Connect(AF_INET, &to, sizeof(to));
    }
  }
  ~RawSocket() { ::close(fd_); }

  // Ignores errors, since the other side may hang up meanwhile.
  void Write(const std::string& bytes) {
    (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

 private:
  void Connect(int family, const void* to, socklen_t size) {
    fd_ = ::socket(family, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(fd_, static_cast<const sockaddr*>(to), size), 0) << std::strerror(errno);
  }
  int fd_ = -1;
};

std::string RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::vector<std::string> Garbage() {
  const std::string zmtp_greeting(
      "\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 30);
  const std::string zmtp(zmtp_greeting + std::string(34, '\0'));
  std::vector<std::string> garbage = {
      "",
      "x",
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "\xff",
      std::string("\xff\0\0\0\0\0\0\0\x01", 9),
      zmtp,                                    // a handshake that stops
      zmtp + std::string("\x04\x05READY", 7),  // a ready command without properties
      zmtp + std::string("\x06\xff\xff\xff\xff\xff\xff\xff\xff", 9),  // a command of 2^64 - 1 bytes
      zmtp + std::string("\x02\x7f\xff\xff\xff\xff\xff\xff\xff", 9),  // a frame of 2^63 - 1 bytes
      std::string("\x01\x00", 2) +
          std::string("\xff\x7f\xff\xff\xff\xff\xff\xff\xff", 9),  // ZMTP 1
      std::string("\x01\x00\x05\x00PSGD", 8),                      // ZMTP 1: not a psgd message
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\xff\xff\xff\x01\x04\0\0\0\x01", 9),
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + RandomBytes(1000, 1),
      std::string(100'000, '\0'),
      std::string(100'000, '\xff'),
  };
  for (uint32_t seed = 2; seed < 20; ++seed) garbage.push_back(RandomBytes(seed * 97, seed));
  for (uint32_t seed = 20; seed < 30; ++seed) garbage.push_back(zmtp + RandomBytes(500, seed));
  return garbage;
}

TEST_P(TransportTest, SurvivesGarbageOnItsPort) {
  if (!sockets()) GTEST_SKIP() << "no port in-process";
  auto transport = NewTransport();
  auto listener = *transport->Listen(AnyAddress());
  auto connector = *transport->Connect({listener->address()});
  std::vector<std::unique_ptr<RawSocket>> half_open;
  uint64_t seq = 0;
  for (const std::string& bytes : Garbage()) {
    half_open.push_back(std::make_unique<RawSocket>(listener->address()));
    half_open.back()->Write(bytes);
    RawSocket(listener->address()).Write(bytes);  // the same bytes, then a hang-up
    ASSERT_TRUE(connector->Send(0, MakePush(seq, {100, 20'000})).ok());
    auto received = ReceiveSoon(*listener);
    ASSERT_TRUE(received) << seq;
    EXPECT_TRUE(IsPush(received->message, seq, {100, 20'000}));
    EXPECT_TRUE(listener->Send(received->from, received->message).ok());
    ASSERT_TRUE(ReceiveSoon(*connector));
    ++seq;
  }
  // libzmq 4.3.4 ends the process if a socket is closed while it reads the greeting of ZMTP 1.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

}  // namespace
}  // namespace psgd
