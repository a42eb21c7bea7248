#include "net/http/http_connection.h"

#include <sys/epoll.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "net/http/http_parser.h"

namespace psgd {
namespace {

constexpr size_t kMostIn = kMostHttpHeader + kMostHttpBody;
constexpr size_t kForget = size_t{1} << 20;  // most sent bytes kept at the front of out_

int CodeOf(const absl::Status& why) {
  if (absl::IsResourceExhausted(why)) return 413;
  return absl::IsUnimplemented(why) ? 501 : 400;
}

}  // namespace

HttpConnection::HttpConnection(std::unique_ptr<HttpSocket> socket, const HttpServerOptions& options,
                               Time now)
    : options_(options), socket_(std::move(socket)), moved_(now) {}

bool HttpConnection::Move(Time now) {
  if (Sending()) {
    const size_t before = sent_;
    if (!socket_->Write(out_, &sent_)) return false;
    if (sent_ > before) moved_ = now;
  }
  if (!Sending()) {
    out_.clear();
    sent_ = 0;
    if (Over()) return false;
  } else if (sent_ > kForget) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  if (state_ == State::kAnswering || no_more_) return true;
  const size_t had = in_.size();
  if (had < kMostIn) no_more_ = !socket_->Read(kMostIn - had, &in_);
  if (in_.size() > had) moved_ = now;
  if (state_ == State::kReading) return true;
  in_.clear();  // input from a stream's reader is ignored
  return !no_more_;
}

std::optional<HttpRequest> HttpConnection::NextRequest() {
  if (state_ != State::kReading || Sending() || last_answer_) return std::nullopt;
  HttpRequest request;
  const auto size = ParseHttpRequest(in_, &request);
  if (!size.ok()) {
    Refuse(size.status());
    return std::nullopt;
  }
  if (*size == 0) {
    if (no_more_) last_answer_ = true;  // the rest will never come
    return std::nullopt;
  }
  in_.erase(0, *size);
  request.role = socket_->PeerRole();
  state_ = State::kAnswering;
  last_answer_ = absl::EqualsIgnoreCase(request.Header("connection"), "close");
  return request;
}

bool HttpConnection::Over() const {
  return last_answer_ && state_ == State::kReading && !Sending();
}

void HttpConnection::Refuse(const absl::Status& why) {
  const int code = CodeOf(why);
  last_answer_ = true;
  in_.clear();
  out_ = absl::StrCat("HTTP/1.1 ", code, " ", HttpReason(code),
                      "\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: ",
                      why.message().size() + 1, "\r\n\r\n", why.message(), "\n");
}

void HttpConnection::Answer(std::string bytes) {
  out_ += bytes;
  state_ = State::kReading;
  if (no_more_) last_answer_ = in_.empty();
}

void HttpConnection::BeginStream(std::string bytes) {
  out_ += bytes;
  state_ = State::kStream;
}

bool HttpConnection::AddToStream(const std::string& bytes) {
  if (out_.size() - sent_ + bytes.size() > options_.stream_bytes) return false;
  out_ += bytes;
  return true;
}

bool HttpConnection::Overdue(Time now) const {
  if (Sending() || !in_.empty()) return now - moved_ > options_.patience;
  return state_ == State::kReading && now - moved_ > options_.idle;
}

uint32_t HttpConnection::Interest() const {
  uint32_t events = 0;
  if (state_ != State::kAnswering && !no_more_ && in_.size() < kMostIn) events |= EPOLLIN;
  if (Sending() || socket_->wants_write()) events |= EPOLLOUT;
  return events;
}

}  // namespace psgd
