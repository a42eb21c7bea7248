// Any bytes to the port of a server's pages: the server answers or hangs up, and still serves the
// next client.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "net/http/http_server.h"
#include "server/control/metrics_page.h"
#include "tests/fuzz/fuzz.h"

namespace psgd::fuzz {
namespace {

constexpr size_t kMostAnswer = 1u << 20;
constexpr int kMostSeconds = 20;
constexpr int kPauseMilliseconds = 5;
HttpServer* page = nullptr;

// Returns the page's answer to these bytes. Closes its sending side only after a while or after an
// answer: a client that closes it at once gets no answer.
std::string Ask(std::span<const uint8_t> bytes, int milliseconds) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = kMostSeconds, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  // Closes with a reset, so that thousands of connections leave no port in TIME_WAIT.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(page->port()));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Require(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0, "nobody listens any more");
  (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  const bool answers = poll(&waiting, 1, milliseconds) > 0;
  std::string answer;
  char piece[4096];
  ssize_t got = 0;
  bool more = true;
  while (true) {
    if (more && (!answers || poll(&waiting, 1, kPauseMilliseconds) == 0)) {
      more = false;
      shutdown(fd, SHUT_WR);
    }
    got = recv(fd, piece, sizeof piece, 0);
    if (got <= 0) break;
    answer.append(piece, static_cast<size_t>(got));
    Require(answer.size() <= kMostAnswer, "it answers without end");
  }
  Require(got == 0 || errno != EAGAIN, "it neither answers nor hangs up");
  close(fd);
  return answer;
}

void CheckServes() {
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  const auto* bytes = reinterpret_cast<const uint8_t*>(request.data());
  const std::string answer = Ask({bytes, request.size()}, 1000 * kMostSeconds);
  Require(answer.rfind("HTTP/1.1 200", 0) == 0, "the page is served no more");
  Require(answer.find("psgd_epoch") != std::string::npos, "the page is empty");
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  auto started = psgd::HttpServer::Listen({});
  psgd::fuzz::Require(started.ok(), "the page cannot be served");
  psgd::fuzz::page = started->release();
  psgd::fuzz::page->Serve([](const psgd::HttpRequest& request, const psgd::HttpReply& reply) {
    psgd::HttpResponse response;
    response.body = psgd::RenderPrometheus(psgd::StatusReply()) + request.body;
    if (request.path == "/events") return reply.Stream(response.body);
    reply.Send(response);
  });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  static uint64_t asked = 0;
  Ask({data, size}, kPauseMilliseconds);
  if (++asked % 256 == 0) CheckServes();
  return 0;
}
