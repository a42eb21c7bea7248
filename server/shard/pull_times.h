// How long a shard worked for a pull, and how long it held the pull back. The answer tells the
// worker both; the rest of the worker's wait is the way there and back.
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
  // Called before and after the shard takes in a message.
  void Begin(const DataHeader& header, Time now);
  void End(Time now);
  // Writes the times into a message that leaves now, if it is the last answer to a pull.
  void Stamp(DataHeader* message, Time now);

  size_t workers() const { return workers_.size(); }

 private:
  struct Worker {
    Duration pushes{};           // time for its pushes between its last answer and its pull
    std::optional<Time> pulled;  // its pull waits since this time
    Duration work_before{};      // the shard's `work_` at that time
  };
  Worker* Find(uint32_t worker);

  std::map<uint32_t, Worker> workers_;
  Duration work_{};  // time spent taking in messages so far
  std::optional<Time> begun_;
  Worker* pushes_ = nullptr;  // the worker whose push is being taken in
};

}  // namespace psgd
