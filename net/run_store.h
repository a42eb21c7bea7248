// Where the servers of a run agree on who leads what: the run's record, and who keeps it.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "proto/run.pb.h"

namespace psgd {

// Thread-safe. Each change names the revision that it changes, so of several changes that are tried
// at once one comes to pass. Errors of all calls:
//   ABORTED              the record has another revision by now, or somebody leads the run
//   UNAVAILABLE          nobody answered: the change may have come to pass, or still may
//   FAILED_PRECONDITION  the store, or what it holds, is not what it should be
class RunStore {
 public:
  virtual ~RunStore() = default;

  struct Held {
    int64_t revision = 0;  // 0: there is no record
    RunRecord record;
    bool led = false;  // its leader was heard of lately
  };
  virtual absl::StatusOr<Held> Read() = 0;
  // NOT_FOUND: none was written.
  virtual absl::StatusOr<RunPlan> ReadPlan() = 0;

  enum class As { kLeader, kSuccessor };
  // Replaces the record that is at `revision` (0: there is none); as a successor only if nobody
  // leads the run. `plan`: written with it; null: as it is. Returns the new revision. The caller
  // leads the run from now on, or still.
  virtual absl::StatusOr<int64_t> Write(int64_t revision, const RunRecord& next,
                                        const RunPlan* plan, As as) = 0;
  // Tells others that the server that leads the run under that epoch is there. To be called all the
  // time. ABORTED: it leads no more.
  virtual absl::Status Keep(uint64_t epoch) = 0;
  // The run is over, and its name free.
  virtual absl::Status Remove(int64_t revision) = 0;

  // Other servers reach it too, so one of them can take the leader's place.
  virtual bool shared() const = 0;
};

}  // namespace psgd
