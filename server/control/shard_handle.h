// One shard as the coordinator sees it: in this process (ShardServer) or in another server's
// (RemoteShard).
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "proto/control.pb.h"
#include "server/durability/durable_shard.h"
#include "server/shard/shard_command.h"

namespace psgd {

// Thread-safe.
class ShardHandle {
 public:
  virtual ~ShardHandle() = default;

  // Where workers reach it.
  virtual std::string address() const = 0;
  // Has the shard carry it out, and write it down if it can. UNAVAILABLE: not now; it has to be
  // given again, and none after it before.
  virtual std::future<absl::Status> Execute(const ShardCommand& command, uint64_t number) = 0;
  // Orders up to this one are not needed again, whatever happens.
  virtual uint64_t written_order() const = 0;
  // The checkpoint is written, or was given up.
  virtual void CheckpointDone(uint64_t checkpoint) = 0;
  // By slice; until `take` fails.
  virtual absl::Status Weights(
      const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take) = 0;
  virtual ShardStatus Status() = 0;

  // A move: what it begins with elsewhere, while it goes on here; its steps since, the last of
  // which leave it standing still; and those steps where it is to go on. UNAVAILABLE: not now. As
  // DurableShard says.
  virtual absl::StatusOr<ShardImage> Give() = 0;
  virtual absl::StatusOr<GivenSteps> GiveSince(uint64_t entry, bool last) = 0;
  virtual absl::Status Follow(const GivenSteps& given) = 0;
  // It is here.
  virtual void KeepOn() = 0;
};

}  // namespace psgd
