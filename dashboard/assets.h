// The files of pages/ and the chart library, embedded in this program.
#pragma once

#include <span>

#include "absl/strings/string_view.h"
#include "net/http/http_message.h"

namespace psgd {

struct Asset {
  absl::string_view path;  // "/app.js"
  absl::string_view body;
};

std::span<const Asset> Assets();

// Returns the file at `path` ("/" is index.html), or 404.
HttpResponse AssetResponse(absl::string_view path);

}  // namespace psgd
