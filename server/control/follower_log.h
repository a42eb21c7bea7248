// One log of one follower, as the leader sees it: what is still to be sent, and how far the
// follower has written.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "common/clock.h"
#include "proto/replication.pb.h"
#include "server/control/follower_stream.h"

namespace psgd {

// Thread-safe.
class FollowerLog {
 public:
  // `start`: what it is sent first is as of this entry.
  explicit FollowerLog(uint64_t start) : start_(start), added_(start) {}

  // `last`: the number of the last entry (of the coordinator: the record) in the part. Never waits:
  // a follower that falls too far behind is closed, and has to begin anew.
  void Add(std::shared_ptr<const LogPart> part, uint64_t last);
  // The oldest that was not taken yet; nothing: none came within the time, or it is closed.
  std::shared_ptr<const LogPart> Next(Duration timeout);

  void Written(uint64_t number);
  // Whether that is so within the time, and before it is closed.
  bool WaitWritten(uint64_t number, Duration timeout);
  // Number of the last that was added.
  uint64_t added() const;
  // For how long it has written nothing of what waits for it; 0: nothing does.
  Duration Stuck(Time now) const;
  // It has written all that was added, and what it began with.
  bool caught_up() const;
  uint64_t bytes_behind() const;
  uint64_t entries_behind() const;

  void Close();
  bool closed() const;

 private:
  const uint64_t start_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const LogPart>> parts_;
  std::deque<std::pair<uint64_t, size_t>> unwritten_;  // last number and bytes of each part
  uint64_t bytes_ = 0;                                 // of them
  uint64_t added_;
  Time moved_{};  // when it last had written something, or nothing was left to write
  std::optional<uint64_t> written_;
  bool closed_ = false;
};

// Sends what comes to the log, and hears how far the follower has written, until either is gone. A
// follower that has nothing to be sent is told so often that the leader is there.
void SendLog(FollowerLog& log, FollowerStream& stream, Duration alive);

}  // namespace psgd
