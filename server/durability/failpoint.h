// Named moments at which a crash matters. Tests make a server die at exactly one moment: ps-server
// --failpoint journal-written=20. Without the option a moment costs a comparison with null.
#pragma once

#include <array>
#include <atomic>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

enum class Failpoint {
  kJournalWriting,  // steps are about to be written
  kJournalWritten,  // steps are written, and nobody has heard of them
  kAnswersSent,     // the transport has the answers
  kImageBegun,
  kImageArrays,        // an image's arrays are on disk, but not its record
  kImageRecorded,      // the image counts, and what it replaces is still there
  kCheckpointPart,     // a shard's part of a checkpoint is on disk
  kCheckpointSealing,  // all parts are on disk, and the checkpoint does not count yet
  kCheckpointSealed,   // the checkpoint counts, and nobody was told
  kRecordWriting,      // a decision is about to be stored
  kRecordWritten,      // the decision is stored, and nobody was told
  kReplaying,          // a shard is being made again from its journal
  kShardRecovered,     // a shard is recovered
};

inline constexpr std::array<std::pair<Failpoint, const char*>, 13> kFailpointNames{{
    {Failpoint::kJournalWriting, "journal-writing"},
    {Failpoint::kJournalWritten, "journal-written"},
    {Failpoint::kAnswersSent, "answers-sent"},
    {Failpoint::kImageBegun, "image-begun"},
    {Failpoint::kImageArrays, "image-arrays"},
    {Failpoint::kImageRecorded, "image-recorded"},
    {Failpoint::kCheckpointPart, "checkpoint-part"},
    {Failpoint::kCheckpointSealing, "checkpoint-sealing"},
    {Failpoint::kCheckpointSealed, "checkpoint-sealed"},
    {Failpoint::kRecordWriting, "record-writing"},
    {Failpoint::kRecordWritten, "record-written"},
    {Failpoint::kReplaying, "replaying"},
    {Failpoint::kShardRecovered, "shard-recovered"},
}};

// One moment at which the process dies. Thread-safe.
class FailpointPlan {
 public:
  // Kills the process (SIGKILL) when it reaches `point` for the `count`th time.
  FailpointPlan(Failpoint point, uint64_t count) : point_(point), left_(count) {}

  void Reach(Failpoint point);

 private:
  const Failpoint point_;
  std::atomic<uint64_t> left_;
};

// Parses NAME or NAME=COUNT, with COUNT at least 1.
absl::StatusOr<std::pair<Failpoint, uint64_t>> ParseFailpoint(absl::string_view text);

inline void Reach(FailpointPlan* plan, Failpoint point) {
  if (plan != nullptr) plan->Reach(point);
}

}  // namespace psgd
