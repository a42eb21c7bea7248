// What travels over HTTP, as its users see it.
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
  std::string path;                            // as it came: percent escapes stay
  std::string query;                           // behind the "?"
  std::map<std::string, std::string> headers;  // by name in small letters
  std::string body;
  // Of the caller's certificate; without TLS, an admin's.
  absl::StatusOr<Role> role = Role::kAdmin;

  // Empty: it was not said.
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

// "Not Found" of 404.
absl::string_view HttpReason(int status);

}  // namespace psgd
