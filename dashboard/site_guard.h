// Keeps other web sites out of the pages: a browser that is on one sends what that asks for.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "net/http/http_message.h"

namespace psgd {

// A page may be read by the name or address of the server alone, so that no other name can be made
// to point at it (DNS rebinding). `names`: those that it has beside "localhost" and addresses.
absl::Status CheckHost(const HttpRequest& request, const std::vector<std::string>& names);

// A change comes from a page of this very server, or from no browser: a form or script of another
// site can neither add the header X-Psgd nor send JSON without being asked, nor hide where it is
// from.
absl::Status CheckSameSite(const HttpRequest& request);

// What each answer says of itself: scripts and styles of this server alone, in nobody's frame.
void AddSafeHeaders(HttpResponse* response);

}  // namespace psgd
