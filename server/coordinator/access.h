// Which role may make which call of the control plane.
#pragma once

#include <span>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/control.pb.h"

namespace psgd {

// The table in docs/security.md. An admin may do everything.
struct AccessRule {
  absl::string_view call;  // of services Control and Peers, or "/metrics"
  bool worker = false;
  bool observer = false;
  bool server = false;
};
std::span<const AccessRule> AccessRules();

// PERMISSION_DENIED names the role, the call and the roles that may make it.
absl::Status CheckAccess(Role role, absl::string_view call);

// Makes the report's words fit to be shown, and drops unknown reasons of refusals: the run keeps
// them to its end.
void MakeReadable(WorkerReport* report);

}  // namespace psgd
