// Stores the run's record, where the servers agree on who leads the run and its shards.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"
#include "proto/run.pb.h"

namespace psgd {

// The bytes of a record: equal records have equal bytes, whatever the order of their maps. Stores
// compare them to recognize a change whose answer was lost.
std::string BytesOf(const RunRecord& record);

// Thread-safe. Each change names the revision that it replaces, so only one of several concurrent
// changes succeeds. Errors of all calls:
//   ABORTED              the record has another revision, or another server leads the run
//   UNAVAILABLE          no answer: the change may have taken effect, or may still do so
//   OUT_OF_RANGE         the store takes no record of this size
//   FAILED_PRECONDITION  the store or its contents are not valid
class RunStore {
 public:
  virtual ~RunStore() = default;

  struct Held {
    int64_t revision = 0;  // 0: no record
    RunRecord record;
    bool led = false;   // the leader renewed its lead recently
    std::string ended;  // without a record: run_id of the run that was removed last
  };
  virtual absl::StatusOr<Held> Read() = 0;
  // NOT_FOUND: no plan was written.
  virtual absl::StatusOr<RunPlan> ReadPlan() = 0;

  enum class As { kLeader, kSuccessor };
  // Replaces the record of `revision` (0: no record). A successor succeeds only if no server leads
  // the run. `plan` is written too; null keeps the stored plan. Returns the new revision.
  // Afterwards the caller leads the run.
  virtual absl::StatusOr<int64_t> Write(int64_t revision, const RunRecord& next,
                                        const RunPlan* plan, As as) = 0;
  // Renews the lead of the server that leads the run under `epoch`. The leader must call it again
  // and again. ABORTED: the caller no longer leads.
  virtual absl::Status Keep(uint64_t epoch) = 0;
  // Ends the run and frees its name.
  virtual absl::Status Remove(int64_t revision) = 0;

  // Whether other servers reach the store too, so that one of them can replace the leader.
  virtual bool shared() const = 0;
};

}  // namespace psgd
