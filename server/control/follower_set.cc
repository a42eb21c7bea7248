#include "server/control/follower_set.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/control/chain.h"

namespace psgd {

Chain::Member FollowerSet::MemberOf(uint32_t replica, const Follower& follower) {
  Chain::Member member;
  member.set_replica(replica);
  member.set_address(follower.address);
  member.set_identity(follower.identity);
  return member;
}

absl::Status FollowerSet::CheckNumber(const Chain::Member& follower) const {
  std::lock_guard lock(mutex_);
  return CheckNumberLocked(follower);
}

absl::Status FollowerSet::CheckNumberLocked(const Chain::Member& follower) const {
  const auto at = followers_.find(follower.replica());
  if (at == followers_.end() || at->second.identity == follower.identity()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "server ", follower.replica(), " of this run is another one, at ", at->second.address,
      "; start this one in an empty directory and without --replica",
      at->second.required
          ? absl::StrCat("; or, if that one is dead, give up its place: ps-ctl drop-follower ",
                         follower.replica())
          : ""));
}

absl::Status FollowerSet::Connect(const Chain::Member& follower, uint32_t log,
                                  std::shared_ptr<FollowerLog> to) {
  std::lock_guard lock(mutex_);
  PSGD_RETURN_IF_ERROR(CheckNumberLocked(follower));
  Follower& known = followers_[follower.replica()];
  known.address = follower.address();
  known.identity = follower.identity();
  std::shared_ptr<FollowerLog>& place = known.logs[log];
  if (place != nullptr) place->Close();
  place = std::move(to);
  return absl::OkStatus();
}

void FollowerSet::Disconnect(uint32_t replica, uint32_t log, const FollowerLog* from) {
  std::lock_guard lock(mutex_);
  const auto follower = followers_.find(replica);
  if (follower == followers_.end()) return;
  auto& logs = follower->second.logs;
  if (const auto at = logs.find(log); at != logs.end() && at->second.get() == from) logs.erase(at);
  if (logs.empty() && !follower->second.required) followers_.erase(follower);
}

void FollowerSet::Require(const Chain::Member& follower) {
  std::lock_guard lock(mutex_);
  Follower& known = followers_[follower.replica()];
  known.address = follower.address();
  known.identity = follower.identity();
  known.required = true;
  known.before.clear();
  for (const auto& [number, log] : known.logs) known.before[number] = log->added();
}

void FollowerSet::NamedBy(uint64_t record, const Chain& chain) {
  std::lock_guard lock(mutex_);
  for (auto& [replica, follower] : followers_) {
    if (follower.required && !follower.named_by && IsIn(chain, replica)) follower.named_by = record;
  }
}

bool FollowerSet::MayLead(const Follower& follower) const {
  if (!follower.required || !follower.named_by) return false;
  const auto at = follower.logs.find(coordinator_log());
  return at == follower.logs.end() || at->second->WaitWritten(*follower.named_by, Duration(0));
}

bool FollowerSet::IsRequired(uint32_t replica) const {
  std::lock_guard lock(mutex_);
  const auto at = followers_.find(replica);
  return at != followers_.end() && at->second.required;
}

bool FollowerSet::HasAllFromBefore(uint32_t replica) const {
  std::lock_guard lock(mutex_);
  const auto at = followers_.find(replica);
  if (at == followers_.end() || !Connected(at->second)) return false;
  return std::all_of(at->second.logs.begin(), at->second.logs.end(), [&](const auto& log) {
    const auto before = at->second.before.find(log.first);
    return before != at->second.before.end() &&
           log.second->WaitWritten(before->second, Duration(0));
  });
}

void FollowerSet::Forget(uint32_t replica) {
  std::lock_guard lock(mutex_);
  const auto follower = followers_.find(replica);
  if (follower == followers_.end()) return;
  for (const auto& [number, log] : follower->second.logs) log->Close();
  followers_.erase(follower);
}

void FollowerSet::Publish(uint32_t log, std::shared_ptr<const LogPart> part, uint64_t last) {
  std::lock_guard lock(mutex_);
  for (const auto& [replica, follower] : followers_) {
    const auto to = follower.logs.find(log);
    if (to != follower.logs.end()) to->second->Add(part, last);
  }
}

absl::Status FollowerSet::WaitWritten(uint32_t log, uint64_t last) const {
  const Time start = SteadyNow();
  std::vector<std::pair<Chain::Member, std::shared_ptr<FollowerLog>>> waited;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [replica, follower] : followers_) {
      if (!follower.required) continue;
      const auto at = follower.logs.find(log);
      waited.emplace_back(MemberOf(replica, follower),
                          at == follower.logs.end() ? nullptr : at->second);
    }
  }
  for (const auto& [member, to] : waited) {
    const Duration left = std::max<Duration>(patience_ - (SteadyNow() - start), Duration(0));
    if (to != nullptr && to->WaitWritten(last, left)) continue;
    return absl::UnavailableError(absl::StrCat(
        "follower ", member.replica(), " at ", member.address(),
        to == nullptr || to->closed() ? " is not connected" : " has not written it yet",
        "; start it again, or drop it with ps-ctl drop-follower if it is lost for good"));
  }
  return absl::OkStatus();
}

std::vector<Chain::Member> FollowerSet::Those(
    const std::function<bool(const Follower&)>& wanted) const {
  std::lock_guard lock(mutex_);
  std::vector<Chain::Member> those;
  for (const auto& [replica, follower] : followers_) {
    if (wanted(follower)) those.push_back(MemberOf(replica, follower));
  }
  return those;
}

std::vector<Chain::Member> FollowerSet::NotYetIn(const Chain& chain) const {
  std::vector<Chain::Member> those =
      Those([this](const Follower& f) { return f.required || Connected(f); });
  std::erase_if(those, [&](const Chain::Member& member) { return IsIn(chain, member.replica()); });
  return those;
}

std::vector<Chain::Member> FollowerSet::Ready() const {
  return Those([this](const Follower& f) {
    return !f.required && Connected(f) &&
           std::all_of(f.logs.begin(), f.logs.end(),
                       [](const auto& log) { return log.second->caught_up(); });
  });
}

std::vector<Chain::Member> FollowerSet::Required() const {
  return Those([](const Follower& f) { return f.required; });
}

std::vector<Chain::Member> FollowerSet::Missing() const {
  return Those([this](const Follower& f) { return f.required && !Connected(f); });
}

std::vector<Chain::Member> FollowerSet::Gone(Duration patience) {
  std::lock_guard lock(mutex_);
  const Time now = SteadyNow();
  std::vector<Chain::Member> gone;
  for (auto& [replica, follower] : followers_) {
    if (!follower.required) continue;
    const bool stuck =
        std::any_of(follower.logs.begin(), follower.logs.end(),
                    [&](const auto& log) { return log.second->Stuck(now) > patience; });
    if (Connected(follower))
      follower.missing_since.reset();
    else if (!follower.missing_since)
      follower.missing_since = now;
    if (stuck || (follower.missing_since && now - *follower.missing_since > patience)) {
      gone.push_back(MemberOf(replica, follower));
    }
  }
  return gone;
}

bool FollowerSet::HasListeners(uint32_t log) const {
  std::lock_guard lock(mutex_);
  return std::any_of(followers_.begin(), followers_.end(),
                     [&](const auto& entry) { return entry.second.logs.contains(log); });
}

std::vector<FollowerStatus> FollowerSet::Status() const {
  std::lock_guard lock(mutex_);
  std::vector<FollowerStatus> all;
  for (const auto& [replica, follower] : followers_) {
    FollowerStatus& status = all.emplace_back();
    status.set_replica(replica);
    status.set_address(follower.address);
    status.set_connected(Connected(follower));
    status.set_in_chain(MayLead(follower));
    for (const auto& [number, log] : follower.logs) {
      status.set_bytes_behind(status.bytes_behind() + log->bytes_behind());
      status.set_entries_behind(status.entries_behind() + log->entries_behind());
    }
  }
  return all;
}

void FollowerSet::CloseAll() {
  std::lock_guard lock(mutex_);
  for (const auto& [replica, follower] : followers_) {
    for (const auto& [number, log] : follower.logs) log->Close();
  }
}

}  // namespace psgd
