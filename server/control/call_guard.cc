#include "server/control/call_guard.h"

#include "absl/strings/str_cat.h"

namespace psgd {

absl::Status CallGuard::Count(const std::string& reason, absl::Status status) {
  std::lock_guard lock(mutex_);
  const uint64_t count = ++refused_[reason];
  // Every refusal is counted, but few are logged: a peer that asks again and again must not fill
  // the disk.
  if ((count & (count - 1)) == 0) {
    log_->warn("refused ({}, {} so far): {}", reason, count, std::string(status.message()));
  }
  return status;
}

absl::Status CallGuard::CheckRole(const absl::StatusOr<Role>& role, absl::string_view call) {
  if (!secured()) return absl::OkStatus();
  absl::Status status = role.ok() ? CheckAccess(*role, call) : role.status();
  return status.ok() ? status : Count("role", std::move(status));
}

absl::Status CallGuard::CheckMember(Role role, const WorkerKey& key, absl::string_view token,
                                    absl::string_view call) {
  if (!secured() || role == Role::kAdmin) return absl::OkStatus();
  if (members_->Belongs(token, key.worker(), key.incarnation())) return absl::OkStatus();
  return Count(
      "not_itself",
      absl::PermissionDeniedError(absl::StrCat(
          call, " in the name of worker ", key.worker(), ", incarnation ", key.incarnation(),
          ", comes from somebody else, or that worker is out of the run (its lease ran out, "
          "or the server was restarted); start the worker again to join anew")));
}

std::map<std::string, uint64_t> CallGuard::refused() const {
  std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace psgd
