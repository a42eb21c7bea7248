// Connections to any port of a server that never finish their handshake are ended.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/certificates/certificates.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using namespace std::chrono_literals;

class Handshake : public RunTest {
 protected:
  ~Handshake() override {
    for (const auto& [fd, what] : sockets_) close(fd);
  }

  // Opens a connection to HOST:PORT that sends `says` and nothing else.
  void Connect(const std::string& address, const std::string& says, const std::string& what) {
    const size_t colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0) << address;
    (void)!send(fd, says.data(), says.size(), MSG_NOSIGNAL);
    sockets_.emplace_back(fd, absl::StrCat(what, " after ", says.size(), " bytes"));
  }

  // Removes the connections that the server ended, and ignores what it sent.
  void ReadAll() {
    std::erase_if(sockets_, [](const auto& connection) {
      char bytes[4096];
      const ssize_t got = recv(connection.first, bytes, sizeof bytes, MSG_DONTWAIT);
      const bool ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
      if (ended) close(connection.first);
      return ended;
    });
  }

  std::vector<std::pair<int, std::string>> sockets_;
};

TEST_F(Handshake, OneThatStopsIsEndedOnEveryPort) {
  const Certificates certificates;
  std::vector<std::unique_ptr<Process>> servers;
  for (const char* transport : {"zmq", "grpc"}) {
    for (const bool secured : {false, true}) {
      const std::string name = absl::StrCat(transport, secured ? "-secured" : "");
      std::vector<std::string> command = {"ps-server",
                                          "--config",
                                          SmallConfig(),
                                          "--port",
                                          "0",
                                          "--shards",
                                          "1",
                                          "--run-dir",
                                          Path(name),
                                          "--set",
                                          absl::StrCat("cluster.transport=", transport)};
      const std::vector<std::string> tls = {"--tls-dir", certificates.dir()};
      if (secured) command = command + tls;
      servers.push_back(std::make_unique<Process>(command));
      std::string control = ServerOf(*servers.back());
      ASSERT_FALSE(control.empty()) << servers.back()->Err();
      std::vector<std::string> ask = {"ps-ctl", "status", "--json", "--server", control};
      if (secured) ask = ask + tls;
      const Ended status = RunProgram(ask);
      ASSERT_EQ(status.code, 0) << status.err;
      const std::string data = Json::parse(status.out)["shards"][0]["endpoint"];
      for (const std::string& port : {control, data}) {
        const std::string what =
            absl::StrCat(name, port == control ? " control port" : " data port");
        Connect(port, "", what);
        Connect(port, std::string("\x16\x03\x01\x02\x00\x01", 6), what);  // beginning of TLS
        Connect(port, "PRI * HTTP/2.0\r\n", what);                        // beginning of HTTP/2
        Connect(port, std::string("\xff\0\0\0\0\0\0\0\x01\x7f\x03", 11),
                what);  // beginning of ZeroMQ
      }
    }
  }
  ASSERT_EQ(sockets_.size(), 32u);
  EXPECT_TRUE(Eventually([&] {
    ReadAll();
    return sockets_.empty();
  })) << sockets_.front().second
      << " is still there, and " << sockets_.size() - 1 << " others";
  for (const auto& server : servers) EXPECT_TRUE(server->Running());
}

}  // namespace
}  // namespace psgd
