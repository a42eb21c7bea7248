// How long a shard worked for a pull, and how long it held the pull back: with its answer the
// worker hears both, and what is left of its wait is the way there and back.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "common/clock.h"
#include "proto/data.pb.h"

namespace psgd {

// Not thread-safe: belongs to the shard's thread.
class PullTimes {
 public:
  // Around taking in a message.
  void Begin(const DataHeader& header, Time now);
  void End(Time now);
  // Of a message that leaves now: says it in the last answer to a pull.
  void Stamp(DataHeader* message, Time now);

  size_t workers() const { return workers_.size(); }

 private:
  struct Worker {
    Duration pushes{};           // taken in since its last answer and before its pull
    std::optional<Time> pulled;  // its pull waits, since then
    Duration work_before{};      // all that the shard had done by then
  };
  Worker* Find(uint32_t worker);

  std::map<uint32_t, Worker> workers_;
  Duration work_{};  // taking in messages, so far
  std::optional<Time> begun_;
  Worker* pushes_ = nullptr;  // whose push is being taken in
};

}  // namespace psgd
