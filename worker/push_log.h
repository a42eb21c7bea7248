// A list of the pushes that shards acknowledged, for audits. Compared with the shards' journals, it
// shows whether a push was lost or counted twice.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "net/message.h"

namespace psgd {

// Writes one line for each push: worker, incarnation, shard, seq, XXH3-64 of its payloads in
// hexadecimal. The operating system has the line before the worker looks at its next message. Not
// thread-safe.
class PushLog {
 public:
  // Appends to the file if it exists.
  static absl::StatusOr<std::unique_ptr<PushLog>> Open(const std::string& path);
  ~PushLog();

  void Acknowledged(const Message& push);

 private:
  explicit PushLog(int file) : file_(file) {}

  const int file_;
};

// The checksum of a message's payloads, one after the other.
uint64_t PayloadChecksum(const Message& message);

}  // namespace psgd
