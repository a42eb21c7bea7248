// What becomes of a run's chain: docs/durability.md, "Followers".
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "net/chain_store.h"

namespace psgd {

bool IsIn(const Chain& chain, uint32_t replica);
// The chain after `replica` took over: it leads, and those behind it follow. Its epoch is above all
// that those before it may give their chains meanwhile, whoever of them leads: of several that take
// over, the last has the highest.
Chain TakenOver(const Chain& chain, uint32_t replica);
// TAKEOVERS.CHANGES, for people.
std::string EpochText(const Chain& chain);
// With one more at its end, and without one.
Chain With(const Chain& chain, const Chain::Member& member);
Chain Without(const Chain& chain, uint32_t replica);
// Of a run that begins, with a server at that address alone.
Chain NewChain(uint32_t replica, const std::string& address);

// What the store held last, as whoever leads knows it.
struct LedChain {
  Chain chain;
  int64_t revision = 0;
};
// Leads the run from now on in place of its leader, with those behind it. `own`: the chain by its
// own record, and REQUIRES that it holds all that a server of that chain has to. UNAVAILABLE: not
// now. FAILED_PRECONDITION: it may not, since another leads or it is not in the chain by now.
absl::StatusOr<LedChain> TakeLead(ChainStore& store, const Chain& own, uint32_t replica);
// Likewise for a server that is started again where its journal ends, at the address that it has
// now.
absl::StatusOr<LedChain> LeadAgain(ChainStore& store, const Chain& own, uint32_t replica,
                                   const std::string& address);

// The embedded store: the chain that a server has in its own record
// (server/durability/coordinator_store.h), which its followers keep as well. It decides nothing
// between servers: they go by their order.
class RecordedChain final : public ChainStore {
 public:
  // Empty: there is none yet.
  explicit RecordedChain(Chain chain) : chain_(std::move(chain)) {}

  absl::StatusOr<Held> Read() override;
  absl::StatusOr<int64_t> Replace(int64_t revision, const Chain& next, As as) override;
  absl::Status Keep(int64_t revision) override;
  absl::Status Remove(int64_t revision) override;
  bool decides() const override { return false; }

 private:
  int64_t Revision() const { return static_cast<int64_t>(chain_.epoch()); }

  std::mutex mutex_;
  Chain chain_;  // guarded by it
};

}  // namespace psgd
