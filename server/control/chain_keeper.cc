#include "server/control/chain_keeper.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd {

Chain ChainKeeper::chain() const {
  std::lock_guard lock(mutex_);
  return led_.chain;
}

std::string ChainKeeper::deposed_by() const {
  std::lock_guard lock(mutex_);
  return deposed_by_;
}

void ChainKeeper::Know(LedChain led) {
  std::lock_guard lock(mutex_);
  led_ = std::move(led);
}

absl::Status ChainKeeper::Begin(const std::string& address) {
  std::lock_guard changing(changing_);
  Chain chain = NewChain(replica_, address);
  const auto revision = store_->Replace(0, chain, ChainStore::As::kSuccessor);
  if (revision.ok()) {
    Know({std::move(chain), *revision});
    return absl::OkStatus();
  }
  if (!absl::IsAborted(revision.status())) return revision.status();
  PSGD_ASSIGN_OR_RETURN(const ChainStore::Held held, store_->Read());
  return absl::AlreadyExistsError(absl::StrCat(
      "etcd holds a run of this name already",
      held.revision == 0 ? ""
                         : absl::StrCat(", led by server ", held.chain.members(0).replica(), " at ",
                                        held.chain.members(0).address(),
                                        held.led ? " (which is there)" : " (which is not there)"),
      ": give this one another name (--set name=...), or let that one end; one that died goes on "
      "with  "
      "ps-server --recover, and of one that is given up  etcdctl del --prefix /psgd/NAME/  removes "
      "what is there"));
}

void ChainKeeper::GoOn(LedChain led) {
  std::lock_guard changing(changing_);
  for (const Chain::Member& member : led.chain.members()) {
    if (member.replica() != replica_) followers_->Require(member);
  }
  Know(std::move(led));
}

absl::Status ChainKeeper::Settle() {
  if (settled_) return absl::OkStatus();
  PSGD_ASSIGN_OR_RETURN(ChainStore::Held held, store_->Read());
  if (held.revision == 0 || held.chain.run_id() != chain().run_id()) {
    return absl::FailedPreconditionError(
        "etcd no longer holds the chain of this run: were its data lost, or its keys removed?");
  }
  const Chain::Member& leader = held.chain.members(0);
  // With its own number but another address, it was recovered there while this one was taken for
  // dead.
  if (leader.replica() != replica_ || leader.address() != chain().members(0).address()) {
    std::lock_guard lock(mutex_);
    deposed_by_ = leader.address();
    return absl::AbortedError(absl::StrCat("server ", leader.replica(), " at ", leader.address(),
                                           " leads this run by now"));
  }
  Know({std::move(held.chain), held.revision});
  settled_ = true;
  // A change that came to pass after it was given up for lost: its follower is not waited for.
  const Chain known = led_.chain;
  for (const Chain::Member& member : known.members()) {
    if (member.replica() == replica_ || followers_->IsRequired(member.replica())) continue;
    PSGD_RETURN_IF_ERROR(Replace(Without(led_.chain, member.replica())));
  }
  return absl::OkStatus();
}

absl::Status ChainKeeper::Replace(Chain next) {
  const auto revision = store_->Replace(led_.revision, next, ChainStore::As::kLeader);
  settled_ = revision.ok();
  if (revision.ok()) Know({std::move(next), *revision});
  return revision.status();
}

absl::StatusOr<bool> ChainKeeper::TakeIn(const Chain::Member& follower) {
  std::lock_guard changing(changing_);
  PSGD_RETURN_IF_ERROR(Settle());
  if (IsIn(led_.chain, follower.replica())) return true;
  if (!followers_->IsRequired(follower.replica())) followers_->Require(follower);
  if (!followers_->HasAllFromBefore(follower.replica())) return false;
  PSGD_RETURN_IF_ERROR(Replace(With(led_.chain, follower)));
  return true;
}

absl::Status ChainKeeper::TakeOut(uint32_t replica) {
  std::lock_guard changing(changing_);
  return Remove(replica);
}

absl::Status ChainKeeper::BeginsAnew(const Chain::Member& follower) {
  std::lock_guard changing(changing_);
  PSGD_RETURN_IF_ERROR(followers_->CheckNumber(follower));
  const bool in =
      IsIn(led_.chain, follower.replica()) || followers_->IsRequired(follower.replica());
  return in ? Remove(follower.replica()) : absl::OkStatus();
}

absl::Status ChainKeeper::Remove(uint32_t replica) {
  PSGD_RETURN_IF_ERROR(Settle());
  if (IsIn(led_.chain, replica)) PSGD_RETURN_IF_ERROR(Replace(Without(led_.chain, replica)));
  followers_->Forget(replica);
  return absl::OkStatus();
}

absl::Status ChainKeeper::Keep() {
  std::lock_guard changing(changing_);
  if (over_) return absl::OkStatus();
  PSGD_RETURN_IF_ERROR(Settle());
  for (const Chain::Member& gone : followers_->Missing()) {
    if (!IsIn(led_.chain, gone.replica())) followers_->Forget(gone.replica());
  }
  const absl::Status kept = store_->Keep(led_.revision);
  if (!absl::IsAborted(kept)) return kept;
  settled_ = false;
  return Settle();
}

absl::Status ChainKeeper::End() {
  std::lock_guard changing(changing_);
  over_ = true;
  PSGD_RETURN_IF_ERROR(Settle());
  return store_->Remove(led_.revision);
}

}  // namespace psgd
