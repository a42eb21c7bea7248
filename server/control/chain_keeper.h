// A leader's hand on its run's chain: whoever joins or leaves it does so here.
//
// Two orders of steps keep the chain true, whatever becomes of this server in between:
//   in:   acknowledgements wait for the follower; it has all from before; the chain holds it
//   out:  the chain holds it no more; acknowledgements do not wait for it
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/chain_store.h"
#include "server/control/chain.h"
#include "server/control/follower_set.h"

namespace psgd {

// Thread-safe. Calls may wait for the store, one after the other. A change that nobody answers is
// UNAVAILABLE, and what came of it is found out by the next call.
class ChainKeeper {
 public:
  ChainKeeper(std::shared_ptr<ChainStore> store, std::shared_ptr<FollowerSet> followers,
              uint32_t replica)
      : store_(std::move(store)), followers_(std::move(followers)), replica_(replica) {}

  // Of a run that begins. ALREADY_EXISTS: there is one of that name.
  absl::Status Begin(const std::string& address);
  // Leads with this; acknowledgements wait for all those behind it.
  void GoOn(LedChain led);

  // As far as it is known.
  Chain chain() const;
  bool decides() const { return store_->decides(); }
  // Where another leads by now; empty: this server does.
  std::string deposed_by() const;

  // In, by calls until the follower is in the chain: true once it is.
  absl::StatusOr<bool> TakeIn(const Chain::Member& follower);
  absl::Status TakeOut(uint32_t replica);
  // A follower that begins anew and holds nothing: out, so that nobody waits for it until it has
  // caught up like a new one. ALREADY_EXISTS: another server has its number; that one stays what it
  // is.
  absl::Status BeginsAnew(const Chain::Member& follower);
  // To be called all the time: tells others that this server leads, finds out what is not known,
  // and lets go of followers that went away on their way in. ABORTED: another leads.
  absl::Status Keep();
  // The run is over.
  absl::Status End();

 private:
  // REQUIRES of the following: changing_ held.
  absl::Status Settle();
  absl::Status Remove(uint32_t replica);
  absl::Status Replace(Chain next);
  void Know(LedChain led);

  const std::shared_ptr<ChainStore> store_;
  const std::shared_ptr<FollowerSet> followers_;
  const uint32_t replica_;
  std::mutex changing_;
  bool settled_ = true;       // guarded by changing_: the store holds what is known
  bool over_ = false;         // likewise: the run is
  mutable std::mutex mutex_;  // guards what follows
  LedChain led_;
  std::string deposed_by_;
};

}  // namespace psgd
