// A file written piece by piece that appears whole or not at all.
#pragma once

#include <memory>
#include <string>

#include "common/bytes.h"
#include "common/status.h"

namespace psgd {

// For contents that should not be gathered in memory first; WriteFileAtomically (common/files.h)
// takes them whole. Until Commit succeeds, the target is untouched; without Commit nothing remains.
// Every error names the file. Not thread-safe; one writer a target at a time within a process.
class AtomicFile {
 public:
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Write(ByteSpan bytes);
  // Makes what was written durable, then renames it over the target.
  absl::Status Commit();

 private:
  AtomicFile(const std::string& path, const std::string& temporary, int descriptor);

  const std::string path_;
  const std::string temporary_;
  int descriptor_;  // -1 once closed
  bool committed_ = false;
};

}  // namespace psgd
