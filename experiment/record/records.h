// metrics.jsonl: one JSON object a line, written while the run goes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// An object whose keys keep the order in which they were added.
using Record = nlohmann::ordered_json;

// Appends records. A line has reached the operating system whole when Write returns, or is taken
// back. Thread-safe.
class MetricsWriter {
 public:
  // Makes the file, or goes on after its last whole line: what a crash left of one is cut off.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Open(const std::string& path);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  // Writes {"kind": kind, "seconds": seconds, ...fields}. A record that cannot be written is lost,
  // and the run should go on: the first such failure is returned, the later ones are only counted.
  // REQUIRES: `fields` is an object, or null for none.
  absl::Status Write(absl::string_view kind, double seconds, const Record& fields);

  uint64_t lost() const;

 private:
  MetricsWriter(std::string path, int fd, int64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  const std::string path_;
  const int fd_;
  mutable std::mutex mutex_;  // guards everything below
  int64_t size_;              // of the file: whole lines only
  uint64_t lost_ = 0;
};

// All records of a file, which may still be growing: a torn last line is left out.
absl::StatusOr<std::vector<Record>> ReadMetrics(const std::string& path);

// The time of the last whole record of a file; 0: there is none, or it cannot be read.
double LastSeconds(const std::string& path);

// Zero where there is no such number.
double NumberIn(const Record& record, const char* key);

}  // namespace psgd
