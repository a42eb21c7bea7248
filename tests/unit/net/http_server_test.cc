// Tests the server with correct, slow and silent clients.
#include "net/http/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Client() { close(fd_); }

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  void Send(const std::string& bytes) const {
    (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Reads until the text ends with `end`, or the server hangs up.
  std::string Read(const std::string& end) const {
    std::string text;
    char block[65536];
    while (end.empty() || !EndsWithText(text, end)) {
      const ssize_t got = recv(fd_, block, sizeof block, 0);
      if (got <= 0) break;
      text.append(block, static_cast<size_t>(got));
    }
    return text;
  }

 private:
  static bool EndsWithText(const std::string& text, const std::string& end) {
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
  }
  const int fd_;
  bool connected_ = false;
};

class HttpServerTest : public testing::Test {
 protected:
  void Start(HttpServerOptions options = {}) {
    auto server = HttpServer::Listen(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    server_->Serve([](const HttpRequest& request, const HttpReply& reply) {
      HttpResponse response;
      if (request.path == "/events") return reply.Stream(ServerSentEvent("start", "0"));
      response.body = request.path == "/large" ? std::string(16 << 20, 'x')
                                               : absl::StrCat("you asked ", request.path, ".");
      reply.Send(response);
    });
  }
  Client Connect() const { return Client(server_->port()); }
  static std::string Get(const std::string& path) {
    return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n");
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersInOrderOnOneConnection) {
  Start();
  const Client client(server_->port());
  client.Send(Get("/a") + Get("/b"));
  const std::string both = client.Read("/b.");
  EXPECT_THAT(both, HasSubstr("you asked /a.HTTP/1.1 200 OK"));
  client.Send("HEAD /c HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.Read("\r\n\r\n"), HasSubstr("Content-Length: 13"));
  client.Send("GET /d HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.Read(""), EndsWith("you asked /d."));  // and the server hung up
}

// The server once read the second part where nobody looked for a request, and waited for a third.
TEST_F(HttpServerTest, ARequestMayComeInTwoParts) {
  Start();
  const Client client(server_->port());
  for (int i = 0; i < 2000; ++i) {
    client.Send("POST /two HTTP/1.1\r\nContent-Length: 2\r\n\r\n");
    const Time send = SteadyNow() + std::chrono::microseconds(i % 50);
    while (SteadyNow() < send) {
    }
    client.Send("{}");
    ASSERT_THAT(client.Read("two."), StartsWith("HTTP/1.1 200")) << i;
  }
}

TEST_F(HttpServerTest, WhatIsNoRequestIsRefusedAndEndsTheConnection) {
  Start();
  const Client client(server_->port());
  client.Send("nonsense\r\n\r\n");
  EXPECT_THAT(client.Read(""), StartsWith("HTTP/1.1 400 Bad Request"));
}

TEST_F(HttpServerTest, SlowReadersAndSilentCallersAreInNobodysWay) {
  Start({.stream_bytes = 1 << 20});
  std::vector<std::unique_ptr<Client>> bad;
  for (int i = 0; i < 20; ++i) {
    bad.push_back(std::make_unique<Client>(server_->port()));
    bad.back()->Send(i % 3 == 0 ? Get("/large") : i % 3 == 1 ? Get("/events") : "GET /never");
  }
  const Client good(server_->port());
  good.Send(Get("/events"));
  EXPECT_THAT(good.Read("data: 0\n\n"), HasSubstr("text/event-stream"));
  // The other clients read nothing, until more than stream_bytes waits for each.
  const std::string event = ServerSentEvent("record", std::string(64 << 10, 'y'));
  for (int i = 0; i < 100; ++i) {
    server_->Publish(event);
    EXPECT_EQ(good.Read("\n\n").size(), event.size());
  }
  const Client asks(server_->port());
  asks.Send(Get("/z"));
  EXPECT_THAT(asks.Read("/z."), StartsWith("HTTP/1.1 200"));
  const std::string rest = bad[1]->Read("");
  EXPECT_LT(rest.size(), 100 * event.size());  // the server disconnected it
}

TEST_F(HttpServerTest, AnswersMayComeLateFromAnyThreadOrNever) {
  auto server = HttpServer::Listen({});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::thread> threads;
  std::optional<HttpReply> kept;
  (*server)->Serve([&](const HttpRequest& request, const HttpReply& reply) {
    if (request.path == "/never") {
      kept = reply;
      return;
    }
    threads.emplace_back([reply] { reply.Send({.body = "late.", .headers = {}}); });
  });
  const int port = (*server)->port();
  {
    const Client client(port), never(port), leaves(port);
    never.Send(Get("/never"));
    leaves.Send(Get("/x"));
    client.Send(Get("/x"));
    EXPECT_THAT(client.Read("late."), EndsWith("late."));
  }
  server->reset();
  for (std::thread& thread : threads) thread.join();
  if (kept) kept->Send({.body = "nobody is there any more", .headers = {}});
}

TEST_F(HttpServerTest, ASilentCallerIsHungUpOn) {
  Start({.patience = Milliseconds(50), .idle = Milliseconds(50)});
  const Client client(server_->port());
  client.Send("GET / HT");
  EXPECT_EQ(client.Read(""), "");
}

TEST_F(HttpServerTest, TwoServersDoNotShareAPort) {
  Start();
  const auto second = HttpServer::Listen({.port = server_->port()});
  EXPECT_THAT(
      std::string(second.status().message()),
      testing::HasSubstr("is taken by another program; take another for the pages with --http"));
}

}  // namespace
}  // namespace psgd
