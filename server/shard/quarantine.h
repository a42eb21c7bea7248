// Workers that send only bad pushes for too long (cluster.quarantine). The shard ignores them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"
#include "proto/control.pb.h"
#include "proto/data.pb.h"
#include "proto/journal.pb.h"

namespace psgd {

struct QuarantinedWorker {
  WorkerKey key;
  std::string why;
  bool not_finite = false;  // its last bad push had numbers that are not finite
};

// Counts a push of `member` that was next in order and sound.
void CountSoundPush(const Push& push, MemberRecord* member);
// Counts a bad push of `clock`. `most`: how many bad pushes in a row are allowed; 0: any number.
// Returns the worker if it is in quarantine from now on.
std::optional<QuarantinedWorker> CountBadPush(const DataHeader& header, uint64_t clock,
                                              const absl::Status& bad, int32_t most,
                                              MemberRecord* member);

}  // namespace psgd
