// Parses HTTP/1.1 requests.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "net/http/http_message.h"

namespace psgd {

constexpr size_t kMostHttpHeader = size_t{16} << 10;
constexpr size_t kMostHttpBody = size_t{64} << 10;

// Parses the request at the start of `bytes`. Returns its length, or 0 while the request is
// incomplete. INVALID_ARGUMENT: malformed. RESOURCE_EXHAUSTED: too large. UNIMPLEMENTED: an
// unsupported transfer encoding of the body.
absl::StatusOr<size_t> ParseHttpRequest(absl::string_view bytes, HttpRequest* request);

}  // namespace psgd
