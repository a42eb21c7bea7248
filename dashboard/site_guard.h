// Protects the pages from other web sites, whose pages can make a browser send requests here.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "net/http/http_message.h"

namespace psgd {

// Accepts only the server's own names and addresses as Host, so that no other name can point at the
// server (DNS rebinding). `names`: its names other than "localhost" and addresses.
absl::Status CheckHost(const HttpRequest& request, const std::vector<std::string>& names);

// Accepts a change only from a page of this server, or from a client that is no browser. Another
// site's form or script cannot add the header X-Psgd or send JSON without permission, and cannot
// hide its origin.
absl::Status CheckSameSite(const HttpRequest& request);

// Adds headers that allow only this server's scripts and styles, and forbid frames.
void AddSafeHeaders(HttpResponse* response);

}  // namespace psgd
