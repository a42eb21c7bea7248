// The records of one run for pages: all records of a short run, a sample of a long run's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiment/record/records.h"

namespace psgd {

struct RunHistoryOptions {
  size_t progress = 1500;  // progress records kept
  size_t details = 200;    // detail records kept; they are large
  size_t others = 500;     // records kept of each other kind
};

// Not thread-safe.
class RunHistory {
 public:
  explicit RunHistory(const RunHistoryOptions& options) : options_(options) {}

  // Adds a record and returns the text that is kept. After a resume, the time continues from the
  // end of the earlier part.
  std::string Add(Record record);
  // All records as one JSON array, oldest first.
  std::string Json() const;

 private:
  struct Kept {
    uint64_t number = 0;  // in the order of arrival
    std::string text;
  };
  size_t MostOf(const std::string& kind) const;

  const RunHistoryOptions options_;
  std::map<std::string, std::vector<Kept>> kinds_;
  uint64_t next_ = 0;
  double before_ = 0;  // seconds of earlier parts
  double last_ = 0;
};

// JSON for a page; bytes that are not UTF-8 are replaced.
std::string JsonText(const Record& record);

}  // namespace psgd
