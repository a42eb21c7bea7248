// What the control row of the page asks for, as calls of the control plane.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "net/http/http_message.h"

namespace psgd {

class ServerLoop;

// "SetHyper" of "/api/learning-rate": by this name docs/security.md says who may. Empty: there is
// none.
absl::string_view ControlCallOf(absl::string_view path);

// Carries it out. The answer is for people: what happens now.
absl::StatusOr<std::string> CallControl(const HttpRequest& request, ServerLoop& server);

// 400, 403, 404 and so on, with the error's words.
HttpResponse ErrorResponse(const absl::Status& error);

}  // namespace psgd
