// A list of the pushes that shards acknowledged, for audits: whoever compares it with the shards'
// journals sees that none was lost and none counted twice.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "net/message.h"

namespace psgd {

// A line a push: worker, incarnation, shard, seq, XXH3-64 of its payloads in hexadecimal. It is
// with the operating system before the next message is looked at. Not thread-safe.
class PushLog {
 public:
  // Adds to the file, if it is there.
  static absl::StatusOr<std::unique_ptr<PushLog>> Open(const std::string& path);
  ~PushLog();

  void Acknowledged(const Message& push);

 private:
  explicit PushLog(int file) : file_(file) {}

  const int file_;
};

// Of a message's payloads, one after the other.
uint64_t PayloadChecksum(const Message& message);

}  // namespace psgd
