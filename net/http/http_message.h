// HTTP requests and responses as handlers see them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "net/credentials.h"

namespace psgd {

struct HttpRequest {
  std::string method;
  std::string path;                            // as received: percent escapes stay
  std::string query;                           // the part after "?"
  std::map<std::string, std::string> headers;  // by lower-case name
  std::string body;
  // The role in the caller's certificate. Without TLS every caller is an admin.
  absl::StatusOr<Role> role = Role::kAdmin;

  // Empty: the request has no such header.
  absl::string_view Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? absl::string_view() : absl::string_view(found->second);
  }
};

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// Returns "Not Found" for 404, for example.
absl::string_view HttpReason(int status);

}  // namespace psgd
