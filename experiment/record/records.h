// metrics.jsonl: one JSON object per line, written during the run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// An object that keeps its keys in insertion order.
using Record = nlohmann::ordered_json;

// Appends records. When Write returns, the operating system has the whole line or none of it.
// Thread-safe.
class MetricsWriter {
 public:
  // Creates the file, or continues after its last whole line and cuts off a torn line.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Open(const std::string& path);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  // Writes {"kind": kind, "seconds": seconds, ...fields}. A record that cannot be written is lost,
  // but the run should go on: only the first such error is returned, later ones are counted.
  // REQUIRES: `fields` is an object, or null for none.
  absl::Status Write(absl::string_view kind, double seconds, const Record& fields);

  uint64_t lost() const;

 private:
  MetricsWriter(std::string path, int fd, int64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  const std::string path_;
  const int fd_;
  mutable std::mutex mutex_;  // guards everything below
  int64_t size_;              // of the file; whole lines only
  uint64_t lost_ = 0;
};

// Reads all records of a file. A torn last line is left out, because the file may still grow.
absl::StatusOr<std::vector<Record>> ReadMetrics(const std::string& path);

// The time of a file's last whole record; 0: the file has none or cannot be read.
double LastSeconds(const std::string& path);

// The time of all parts of a run, each of which counts from 0: a resume begins another.
double TotalSeconds(const std::string& path);

// Returns zero if the record has no such number.
double NumberIn(const Record& record, const char* key);
// The numbers in "measures" of the record of an evaluation.
std::map<std::string, double> MeasuresIn(const Record& evaluation);
// The seconds in a line of a file, without parsing it; negative: none.
double SecondsIn(const std::string& line);

}  // namespace psgd
