#include "net/http/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <unordered_map>

#include "net/address.h"
#include "net/http/http_connection.h"
#include "net/http/http_mailbox.h"
#include "net/resolve.h"

namespace psgd {
namespace {

constexpr int kLookMilliseconds = 500;  // between looks for overdue connections
constexpr int kEventsAtOnce = 64;
constexpr uint64_t kListener = 0;
constexpr uint64_t kMail = 1;

absl::StatusOr<int> ListeningSocket(const std::string& host, int port) {
  PSGD_ASSIGN_OR_RETURN(const auto found, Resolve(host, port));
  int error = 0;
  for (const SocketAddress& at : found) {
    const int fd = socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    // Allows a recently used port, but never a port on which another program listens.
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd >= 0 && bind(fd, at.get(), at.size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    error = errno;
    close(fd);
  }
  if (error == EADDRINUSE) {
    return UnavailableError(
        "port ", port, " of ", host,
        " is taken by another program; take another for the pages with --http (0: any free one)");
  }
  return UnavailableError("cannot listen on ", HostPort(host, port),
                          " for the pages: ", std::strerror(error),
                          "; choose another address with --http");
}

int PortOf(int fd) {
  SocketAddress address;
  getsockname(fd, address.get(), &address.size);
  return address.port();
}

}  // namespace

class HttpServer::Loop {
 public:
  Loop(const HttpServerOptions& options, int listener, std::unique_ptr<TlsServerContext> tls)
      : options_(options),
        tls_(std::move(tls)),
        listener_(listener),
        epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    Watch(EPOLL_CTL_ADD, listener_, EPOLLIN, kListener);
    Watch(EPOLL_CTL_ADD, mailbox_->event.fd(), EPOLLIN, kMail);
  }
  ~Loop() {
    stop_ = true;
    mailbox_->Put({});  // wakes the thread
    if (thread_.joinable()) thread_.join();
    connections_.clear();
    close(listener_);
    close(epoll_);
  }

  void Start(Handler handler) {
    handler_ = std::move(handler);
    thread_ = std::thread([this] { Run(); });
  }
  void Publish(const std::string& events) {
    mailbox_->Put({HttpReply::Mailbox::Letter::kPublish, 0, events});
  }
  int port() const { return PortOf(listener_); }

 private:
  using Letter = HttpReply::Mailbox::Letter;
  struct Watched {
    std::unique_ptr<HttpConnection> connection;
    uint32_t interest = 0;
  };

  void Run() {
    // OpenSSL writes without MSG_NOSIGNAL.
    sigset_t pipes;
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
    epoll_event events[kEventsAtOnce];
    Time looked = SteadyNow();
    while (!stop_) {
      const int wait = connections_.empty() ? -1 : kLookMilliseconds;
      const int count = epoll_wait(epoll_, events, kEventsAtOnce, wait);
      for (int i = 0; i < count; ++i) {
        const uint64_t id = events[i].data.u64;
        if (id == kListener) {
          Accept();
        } else if (id == kMail) {
          Deliver();
        } else if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0) {
          connections_.erase(id);
        } else {
          Serve(id);
        }
      }
      const Time now = SteadyNow();
      if (now - looked < Milliseconds(kLookMilliseconds)) continue;
      looked = now;
      std::erase_if(connections_,
                    [&](const auto& entry) { return entry.second.connection->Overdue(now); });
    }
  }

  void Watch(int operation, int fd, uint32_t events, uint64_t id) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    epoll_ctl(epoll_, operation, fd, &event);
  }

  void Accept() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      if (connections_.size() >= options_.connections) {
        close(fd);
        continue;
      }
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const uint64_t id = next_id_++;
      Watched& watched = connections_[id];
      watched.connection = std::make_unique<HttpConnection>(
          std::make_unique<HttpSocket>(fd, tls_.get()), options_, SteadyNow());
      watched.interest = EPOLLIN;
      Watch(EPOLL_CTL_ADD, fd, EPOLLIN, id);
    }
  }

  void Deliver() {
    for (Letter& letter : mailbox_->Take()) {
      if (letter.kind == Letter::kPublish) {
        PublishNow(letter.bytes);
        continue;
      }
      const auto found = connections_.find(letter.connection);
      if (found == connections_.end()) continue;
      HttpConnection& connection = *found->second.connection;
      if (letter.kind == Letter::kStream) {
        connection.BeginStream(std::move(letter.bytes));
      } else {
        connection.Answer(std::move(letter.bytes));
      }
      Serve(letter.connection);
    }
  }

  void PublishNow(const std::string& events) {
    std::vector<uint64_t> streams;
    for (const auto& [id, watched] : connections_) {
      if (watched.connection->stream()) streams.push_back(id);
    }
    for (const uint64_t id : streams) {
      if (connections_[id].connection->AddToStream(events)) {
        Serve(id);
      } else {
        connections_.erase(id);
      }
    }
  }

  void Serve(uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Watched& watched = found->second;
    HttpConnection& connection = *watched.connection;
    bool lives = connection.Move(SteadyNow());
    if (lives) {
      // To read once more here would lose a request: what arrives now wakes nobody later.
      if (const auto request = connection.NextRequest()) {
        handler_(*request, HttpReply(mailbox_, id, request->method == "HEAD"));
      }
      lives = !connection.Over();
    }
    if (!lives) {
      connections_.erase(found);
      return;
    }
    const uint32_t interest = connection.Interest();
    if (interest != watched.interest) Watch(EPOLL_CTL_MOD, connection.fd(), interest, id);
    watched.interest = interest;
  }

  const HttpServerOptions options_;
  const std::unique_ptr<TlsServerContext> tls_;
  const int listener_;
  const int epoll_;
  const std::shared_ptr<HttpReply::Mailbox> mailbox_ = std::make_shared<HttpReply::Mailbox>();
  Handler handler_;
  std::atomic<bool> stop_{false};
  // The members below belong to the server's thread.
  std::unordered_map<uint64_t, Watched> connections_;
  uint64_t next_id_ = kMail + 1;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpServerOptions& options) {
  std::unique_ptr<TlsServerContext> tls;
  if (options.credentials != nullptr) {
    PSGD_ASSIGN_OR_RETURN(tls, TlsServerContext::Create(*options.credentials));
  }
  PSGD_ASSIGN_OR_RETURN(const int listener, ListeningSocket(options.host, options.port));
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::make_unique<Loop>(options, listener, std::move(tls))));
}

HttpServer::HttpServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
HttpServer::~HttpServer() = default;

void HttpServer::Serve(Handler handler) { loop_->Start(std::move(handler)); }
int HttpServer::port() const { return loop_->port(); }
void HttpServer::Publish(const std::string& events) { loop_->Publish(events); }

}  // namespace psgd
