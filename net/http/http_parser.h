// Bytes to HTTP/1.1 requests.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "net/http/http_message.h"

namespace psgd {

constexpr size_t kMostHttpHeader = size_t{16} << 10;
constexpr size_t kMostHttpBody = size_t{64} << 10;

// The request that `bytes` begin with: how many of them it takes, 0 while it is not there as a
// whole. INVALID_ARGUMENT: it is none; RESOURCE_EXHAUSTED: it is too large; UNIMPLEMENTED: its body
// comes in a way that is not understood.
absl::StatusOr<size_t> ParseHttpRequest(absl::string_view bytes, HttpRequest* request);

}  // namespace psgd
