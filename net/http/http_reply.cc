#include <utility>

#include "absl/strings/str_cat.h"
#include "net/http/http_mailbox.h"

namespace psgd {

void HttpReply::Mailbox::Put(Letter letter) {
  {
    std::lock_guard lock(mutex);
    letters.push_back(std::move(letter));
  }
  event.Set();
}

std::vector<HttpReply::Mailbox::Letter> HttpReply::Mailbox::Take() {
  event.Take();
  std::lock_guard lock(mutex);
  return std::exchange(letters, {});
}

void HttpReply::Send(const HttpResponse& response) const {
  std::string bytes = absl::StrCat("HTTP/1.1 ", response.status, " ", HttpReason(response.status),
                                   "\r\nContent-Type: ", response.type,
                                   "\r\nContent-Length: ", response.body.size(), "\r\n");
  for (const auto& [name, value] : response.headers)
    absl::StrAppend(&bytes, name, ": ", value, "\r\n");
  absl::StrAppend(&bytes, "\r\n", head_ ? "" : response.body);
  mailbox_->Put({Mailbox::Letter::kAnswer, connection_, std::move(bytes)});
}

void HttpReply::Stream(const std::string& first) const {
  mailbox_->Put({Mailbox::Letter::kStream, connection_,
                 absl::StrCat("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                              "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
                              "Connection: close\r\n\r\nretry: 1000\n\n",
                              first)});
}

std::string ServerSentEvent(absl::string_view name, absl::string_view data) {
  return absl::StrCat("event: ", name, "\ndata: ", data, "\n\n");
}

}  // namespace psgd
