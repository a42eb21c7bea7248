#include "worker/push_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_format.h"
#include "common/files.h"

namespace psgd {

uint64_t PayloadChecksum(const Message& message) {
  Checksum checksum;
  for (const Bytes& payload : message.payloads) checksum.Add(payload.span());
  return checksum.Value();
}

absl::StatusOr<std::unique_ptr<PushLog>> PushLog::Open(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return FileError("open", path, errno);
  return std::unique_ptr<PushLog>(new PushLog(file));
}

PushLog::~PushLog() { close(file_); }

void PushLog::Acknowledged(const Message& push) {
  const DataHeader& header = push.header;
  const std::string line =
      absl::StrFormat("%d %d %d %d %016x\n", header.worker(), header.incarnation(), header.shard(),
                      header.push().seq(), PayloadChecksum(push));
  // A list that is short is found out by who reads it.
  (void)!write(file_, line.data(), line.size());
}

}  // namespace psgd
