// Guards the control plane of a secured run: it checks roles, and that members speak only for
// themselves.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/log.h"
#include "net/allow_list.h"
#include "proto/control.pb.h"
#include "server/coordinator/access.h"

namespace psgd {

// Thread-safe.
class CallGuard {
 public:
  // Null `members`: the run is not secured, and everybody may make every call.
  CallGuard(std::shared_ptr<const AllowList> members, Log log)
      : members_(std::move(members)), log_(std::move(log)) {}

  bool secured() const { return members_ != nullptr; }
  absl::Status CheckRole(const absl::StatusOr<Role>& role, absl::string_view call);
  // A call in the name of a member must come with the member's token, or from an admin.
  absl::Status CheckMember(Role role, const WorkerKey& key, absl::string_view token,
                           absl::string_view call);
  std::map<std::string, uint64_t> refused() const;

 private:
  absl::Status Count(const std::string& reason, absl::Status status);

  const std::shared_ptr<const AllowList> members_;
  const Log log_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, uint64_t> refused_;
};

}  // namespace psgd
