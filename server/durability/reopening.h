// When to open a database again after a failed write: RocksDB takes no more writes for some time
// then. While the disk is full, the attempts fail too, so they become rarer. RocksDB leaves files
// of a failed attempt in the folder; this removes them.
#pragma once

#include <functional>
#include <string>

#include "common/clock.h"
#include "common/status.h"

namespace psgd {

// Not thread-safe.
class Reopening {
 public:
  static constexpr Duration kFirstPause = std::chrono::milliseconds(10);
  static constexpr Duration kLongestPause = std::chrono::seconds(5);

  // `folder`: of the database.
  explicit Reopening(std::string folder) : folder_(std::move(folder)) {}

  // A write failed.
  void Failed(const absl::Status& why, Time now);
  // Calls `open`, if the next attempt is due. Otherwise returns why the last attempt, or the write,
  // failed.
  absl::Status Try(const std::function<absl::Status()>& open);

 private:
  const std::string folder_;
  absl::Status why_;
  Duration pause_{};
  Time next_{};  // when the next attempt is due
};

}  // namespace psgd
