// Executes requests of the page's control row as calls of the control plane.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "net/http/http_message.h"

namespace psgd {

class ServerLoop;

// Returns "SetHyper" for "/api/learning-rate". docs/security.md grants access by this name. Empty:
// the path is no control call.
absl::string_view ControlCallOf(absl::string_view path);

// Executes the call. The answer tells people what happens now.
absl::StatusOr<std::string> CallControl(const HttpRequest& request, ServerLoop& server);

// 400, 403, 404 and so on, with the error's message.
HttpResponse ErrorResponse(const absl::Status& error);

}  // namespace psgd
