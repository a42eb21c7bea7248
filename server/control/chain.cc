#include "server/control/chain.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/random_id.h"

namespace psgd {
namespace {

const Chain::Member* Find(const Chain& chain, uint32_t replica) {
  for (const Chain::Member& member : chain.members()) {
    if (member.replica() == replica) return &member;
  }
  return nullptr;
}

// An epoch's upper half counts takeovers, by places; its lower half what whoever leads changes.
constexpr int kTakeoverShift = 32;

Chain NextOf(const Chain& chain) {
  Chain next;
  next.set_epoch(chain.epoch() + 1);
  next.set_run_id(chain.run_id());
  return next;
}

// That the chain is of this server's run, and that what it holds is what the chain takes it to
// hold.
absl::Status CheckPlace(const Chain& held, const Chain& own, uint32_t replica) {
  if (held.run_id() != own.run_id()) {
    return absl::FailedPreconditionError(
        "etcd holds the chain of another run of the same name; end that one, or remove its keys");
  }
  const Chain::Member* const there = Find(held, replica);
  const Chain::Member* const here = Find(own, replica);
  if (there != nullptr && here != nullptr && there->since() == here->since())
    return absl::OkStatus();
  const Chain::Member& leader = held.members(0);
  return absl::FailedPreconditionError(absl::StrCat(
      "server ", replica,
      " is not in the run's chain by now, or has not heard yet that it is, so it may "
      "lack what was acknowledged; server ",
      leader.replica(), " at ", leader.address(), " leads, or goes on with  ps-server --recover"));
}

absl::Status CheckThere(const ChainStore::Held& held) {
  if (held.revision != 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "etcd holds no chain of this run: it is over, or etcd lost its data. A run that is not over "
      "goes on "
      "from its last checkpoint (ps-server --resume)");
}

absl::StatusOr<LedChain> Replaced(ChainStore& store, int64_t revision, Chain next,
                                  ChainStore::As as) {
  PSGD_ASSIGN_OR_RETURN(const int64_t now, store.Replace(revision, next, as));
  return LedChain{std::move(next), now};
}

}  // namespace

bool IsIn(const Chain& chain, uint32_t replica) { return Find(chain, replica) != nullptr; }

Chain TakenOver(const Chain& chain, uint32_t replica) {
  Chain next = NextOf(chain);
  for (const Chain::Member& member : chain.members()) {
    if (member.replica() == replica || next.members_size() > 0) *next.add_members() = member;
  }
  const auto place = static_cast<uint64_t>(chain.members_size() - next.members_size());
  if (place > 0) next.set_epoch(((chain.epoch() >> kTakeoverShift) + place) << kTakeoverShift);
  return next;
}

std::string EpochText(const Chain& chain) {
  constexpr uint64_t kChanges = (uint64_t{1} << kTakeoverShift) - 1;
  return absl::StrCat(chain.epoch() >> kTakeoverShift, ".", chain.epoch() & kChanges);
}

Chain With(const Chain& chain, const Chain::Member& member) {
  Chain next = NextOf(chain);
  *next.mutable_members() = chain.members();
  Chain::Member* const last = next.add_members();
  *last = member;
  last->set_since(next.epoch());
  return next;
}

Chain Without(const Chain& chain, uint32_t replica) {
  Chain next = NextOf(chain);
  for (const Chain::Member& member : chain.members()) {
    if (member.replica() != replica) *next.add_members() = member;
  }
  return next;
}

Chain NewChain(uint32_t replica, const std::string& address) {
  Chain::Member self;
  self.set_replica(replica);
  self.set_address(address);
  self.set_identity(RandomId());
  Chain none;
  std::random_device random;
  none.set_run_id(absl::StrFormat("%08x%08x", random(), random()));
  return With(none, self);
}

absl::StatusOr<LedChain> TakeLead(ChainStore& store, const Chain& own, uint32_t replica) {
  PSGD_ASSIGN_OR_RETURN(const ChainStore::Held held, store.Read());
  PSGD_RETURN_IF_ERROR(CheckThere(held));
  PSGD_RETURN_IF_ERROR(CheckPlace(held.chain, own, replica));
  const Chain::Member& leader = held.chain.members(0);
  if (leader.replica() == replica) {
    // It did, and the answer was lost.
    return LedChain{held.chain, held.revision};
  }
  if (held.led) {
    return absl::UnavailableError(absl::StrCat("server ", leader.replica(), " at ",
                                               leader.address(), " says in etcd that it leads"));
  }
  return Replaced(store, held.revision, TakenOver(held.chain, replica), ChainStore::As::kSuccessor);
}

absl::StatusOr<LedChain> LeadAgain(ChainStore& store, const Chain& own, uint32_t replica,
                                   const std::string& address) {
  PSGD_ASSIGN_OR_RETURN(const ChainStore::Held held, store.Read());
  PSGD_RETURN_IF_ERROR(CheckThere(held));
  PSGD_RETURN_IF_ERROR(CheckPlace(held.chain, own, replica));
  const Chain::Member& leader = held.chain.members(0);
  // The lease may still be that of this server before it died.
  if (held.led && leader.replica() != replica) {
    return absl::UnavailableError(absl::StrCat(
        "server ", leader.replica(), " at ", leader.address(),
        " leads this run by now; join it with  ps-server --follow ", leader.address()));
  }
  Chain next = TakenOver(held.chain, replica);
  next.mutable_members(0)->set_address(address);
  // Two servers cannot listen at one address; elsewhere, the one that led may only stand still.
  const bool in_its_place = leader.replica() == replica && leader.address() == address;
  return Replaced(store, held.revision, std::move(next),
                  in_its_place ? ChainStore::As::kLeader : ChainStore::As::kSuccessor);
}

absl::StatusOr<ChainStore::Held> RecordedChain::Read() {
  std::lock_guard lock(mutex_);
  return Held{Revision(), chain_, false};
}

absl::StatusOr<int64_t> RecordedChain::Replace(int64_t revision, const Chain& next, As) {
  std::lock_guard lock(mutex_);
  if (revision != Revision()) return absl::AbortedError("the chain is another by now");
  chain_ = next;
  return Revision();
}

absl::Status RecordedChain::Keep(int64_t revision) {
  std::lock_guard lock(mutex_);
  return revision == Revision() ? absl::OkStatus()
                                : absl::AbortedError("the chain is another by now");
}

absl::Status RecordedChain::Remove(int64_t revision) {
  std::lock_guard lock(mutex_);
  if (revision != Revision()) return absl::AbortedError("the chain is another by now");
  chain_.Clear();
  return absl::OkStatus();
}

}  // namespace psgd
