// Which role may ask what of the control plane, and what peers may call themselves.
#pragma once

#include <cstddef>
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

// PERMISSION_DENIED says who asked for what, and which roles may.
absl::Status CheckAccess(Role role, absl::string_view call);

// A report whose words are fit to be shown, and whose reasons are those that there are: they are
// kept for the whole run.
void MakeReadable(WorkerReport* report);

}  // namespace psgd
