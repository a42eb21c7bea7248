// A file that is written piece by piece and appears whole or not at all, unless it is a device.
#pragma once

#include <memory>
#include <string>

#include "common/bytes.h"
#include "common/status.h"

namespace psgd {

// Whether what is written to this path goes straight to where it leads, because that cannot be
// replaced: to a device, a pipe, or this process's own output, as /dev/stdout.
bool IsWrittenDirectly(const std::string& path);

// Whether the path leads to the process's standard output.
bool IsStandardOutput(const std::string& path);

// For contents too large to gather in memory; WriteFileAtomically (common/files.h) takes them
// whole. Until Commit succeeds, the target is untouched; without Commit nothing remains. Of a
// symbolic link the target is the file that it leads to. What IsWrittenDirectly gets each piece at
// once. Every error names the file. Not thread-safe. REQUIRES: a process has one writer at a time
// for each target.
class AtomicFile {
 public:
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Write(ByteSpan bytes);
  // Syncs the written bytes to disk, then renames the file over the target.
  absl::Status Commit();

 private:
  AtomicFile(const std::string& path, const std::string& temporary, int descriptor);

  bool replaces() const { return !temporary_.empty(); }
  const std::string& written() const { return replaces() ? temporary_ : path_; }

  const std::string path_;
  const std::string temporary_;  // empty: it is written directly
  int descriptor_;               // -1 once closed
  bool committed_ = false;
};

}  // namespace psgd
