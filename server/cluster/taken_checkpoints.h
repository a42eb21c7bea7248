// The checkpoints that have ended, for the status of the run, and the requests that wait for one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "server/cluster/server_effects.h"

namespace psgd {

// Not thread-safe.
class TakenCheckpoints {
 public:
  // The request is answered once the checkpoint has ended, or at the deadline.
  void Await(uint64_t checkpoint, uint64_t request, Time deadline);
  // The checkpoint is durable, or could not be written.
  void Ended(uint64_t checkpoint, const absl::StatusOr<SealedCheckpoint>& sealed, Time now,
             ServerEffects* effects);
  // Answers the requests whose deadline has passed.
  void Tick(Time now, ServerEffects* effects);
  void Show(Time now, StatusReply* status) const;

 private:
  struct Awaiting {
    uint64_t checkpoint = 0;
    uint64_t request = 0;
    Time deadline{};
  };

  std::vector<Awaiting> awaiting_;
  std::vector<std::pair<CheckpointInfo, Time>> taken_;  // since this server leads, and when
  std::optional<uint64_t> best_;                        // of all
  std::string failed_;
};

}  // namespace psgd
