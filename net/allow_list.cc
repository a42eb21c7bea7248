#include "net/allow_list.h"

namespace psgd {

void AllowList::Admit(uint32_t worker, uint32_t incarnation, const Passes& passes) {
  std::lock_guard lock(mutex_);
  Forget(worker);
  for (const std::string& pass : {passes.curve_key, passes.token}) {
    if (pass.empty()) continue;
    // A worker joins again with the same key if the answer to its first join was lost.
    if (const auto held = holders_.find(pass); held != holders_.end()) Forget(held->second.worker);
    holders_[pass] = {worker, incarnation};
  }
  members_[worker] = {incarnation, passes};
}

void AllowList::Remove(uint32_t worker, uint32_t incarnation) {
  std::lock_guard lock(mutex_);
  const auto member = members_.find(worker);
  if (member != members_.end() && member->second.incarnation == incarnation) Forget(worker);
}

void AllowList::Forget(uint32_t worker) {
  const auto member = members_.find(worker);
  if (member == members_.end()) return;
  holders_.erase(member->second.passes.curve_key);
  holders_.erase(member->second.passes.token);
  members_.erase(member);
}

bool AllowList::Knows(absl::string_view pass) const {
  std::lock_guard lock(mutex_);
  return holders_.count(std::string(pass)) > 0;
}

bool AllowList::Belongs(absl::string_view pass, uint32_t worker, uint32_t incarnation) const {
  std::lock_guard lock(mutex_);
  const auto holder = holders_.find(std::string(pass));
  return holder != holders_.end() && holder->second.worker == worker &&
         holder->second.incarnation == incarnation;
}

size_t AllowList::members() const {
  std::lock_guard lock(mutex_);
  return members_.size();
}

}  // namespace psgd
