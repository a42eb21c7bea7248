// Where it is settled who leads a run and who follows: its chain (docs/durability.md, "Followers").
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"
#include "proto/control.pb.h"

namespace psgd {

// Thread-safe. Each change names the revision that it changes, so of several that are tried at once
// one comes to pass. Errors of all calls:
//   ABORTED              the chain is another by now (or is not there), or somebody leads it
//   UNAVAILABLE          nobody answered: what was asked for may have come to pass, or still may
//   FAILED_PRECONDITION  what answers, or what it holds, is not what it should be
class ChainStore {
 public:
  virtual ~ChainStore() = default;

  struct Held {
    int64_t revision = 0;  // 0: there is no chain
    Chain chain;
    bool led = false;  // its leader was heard of lately
  };
  virtual absl::StatusOr<Held> Read() = 0;

  enum class As { kLeader, kSuccessor };
  // Makes `next` the chain if it is at `revision` (0: there is none), for a successor also only if
  // nobody leads it. The caller leads from now on, or still. Gives the new revision.
  virtual absl::StatusOr<int64_t> Replace(int64_t revision, const Chain& next, As as) = 0;
  // Says that the leader, whose chain is at `revision`, is there. To be called all the time.
  virtual absl::Status Keep(int64_t revision) = 0;
  // The run is over.
  virtual absl::Status Remove(int64_t revision) = 0;

  // Servers that cannot hear each other are kept apart by it: so a leader may go on without a
  // follower that is gone, and nobody has to know that it is dead.
  virtual bool decides() const = 0;
};

}  // namespace psgd
