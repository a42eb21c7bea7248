// At staleness 0: the absorbed updates that wait for other workers' updates, by the clock that they
// count in, and by slice. It knows no weights: SynchronousClocks says when a slice's updates are
// complete.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/status.h"
#include "net/message.h"
#include "proto/journal.pb.h"
#include "server/shard/open_push.h"

namespace psgd {

// A payload of a worker's push.
struct GatheredPayload {
  uint32_t worker = 0;
  std::shared_ptr<const Message> message;
  SharedPayload shared;

  size_t bytes() const { return message->payloads[shared.payload].size(); }
  // The clock for which the worker made it. A late push counts in a later clock.
  uint64_t made_for() const { return message->header.push().clock(); }
};

// Not thread-safe.
class GatheredPushes {
 public:
  // `clock`: the clock in which the push counts. `payloads`: of the message, from SharedPayloads.
  // Returns the kept message.
  std::shared_ptr<const Message> Add(uint64_t clock, Message message,
                                     std::vector<SharedPayload> payloads);

  // Keeps a payload that was taken, for another clock.
  void PutBack(uint64_t clock, GatheredPayload payload);

  // Whether a push of the clock was added, be it an empty push.
  bool Has(uint64_t clock) const { return by_clock_.contains(clock); }
  // The first clock after `clock` that has a push.
  std::optional<uint64_t> Next(uint64_t clock) const;
  // Whether a payload of the clock is for this slice (local index) and for others.
  bool IsShared(uint64_t clock, size_t local) const;
  // The payloads that begin with a slice (local index), in the order of workers.
  std::span<const GatheredPayload> Of(uint64_t clock, size_t local) const;
  // Removes these payloads and returns them.
  std::vector<GatheredPayload> Take(uint64_t clock, size_t local);
  // Takes what is left of the clock, in the order of workers.
  std::vector<GatheredPayload> TakeAll(uint64_t clock);

  // Bytes of all payloads.
  size_t bytes() const { return bytes_; }
  // Adds every payload to the record, as a push of its own, and a clock without payloads as an
  // empty push.
  void Save(ShardRecord* record) const;

 private:
  struct Clock {
    // By the first slice of the payload; each in the order of workers.
    std::map<size_t, std::vector<GatheredPayload>> slices;
    std::set<size_t> shared;  // slices of payloads for several slices
  };

  void Insert(Clock& clock, GatheredPayload payload);

  std::map<uint64_t, Clock> by_clock_;
  size_t bytes_ = 0;
};

// A push of a record.
absl::StatusOr<Message> MessageOf(const WaitingPush& waiting);

}  // namespace psgd
