// Moments at which a crash matters, by name, so that tests can have a server die at exactly one:
// ps-server --failpoint journal-written=20. Without that option there are none, and a moment costs
// a comparison with null.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

enum class Failpoint {
  kJournalWriting,  // steps are about to be written down
  kJournalWritten,  // they are, and nobody has heard of it
  kAnswersSent,     // what they caused to be said was handed to the transport
  kImageBegun,
  kImageArrays,        // an image's arrays are on disk, its record is not
  kImageRecorded,      // it counts, and what it replaces is still there
  kCheckpointPart,     // a shard's part of a checkpoint is on disk
  kCheckpointSealing,  // all parts are, and it does not count yet
  kCheckpointSealed,   // it counts, and nobody was told
  kRecordWriting,      // the coordinator decided, and is about to write that down
  kRecordWritten,      // it has, and nobody was told
  kReplaying,          // a shard is being made again from its journal
  kShardRecovered,     // one shard is there again
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
  // It is killed (SIGKILL) the `count`th time that it comes to `point`.
  FailpointPlan(Failpoint point, uint64_t count) : point_(point), left_(count) {}

  void Reach(Failpoint point);

 private:
  const Failpoint point_;
  std::atomic<uint64_t> left_;
};

// NAME or NAME=COUNT, COUNT from 1.
absl::StatusOr<std::pair<Failpoint, uint64_t>> ParseFailpoint(absl::string_view text);

inline void Reach(FailpointPlan* plan, Failpoint point) {
  if (plan != nullptr) plan->Reach(point);
}

}  // namespace psgd
