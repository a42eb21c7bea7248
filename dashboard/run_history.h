// The records of one run for pages that show it: all of a short run, thinned out of a long one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiment/record/records.h"

namespace psgd {

struct RunHistoryOptions {
  size_t progress = 1500;  // records of that kind kept
  size_t details = 200;    // likewise; they are large
  size_t others = 500;     // of each further kind
};

// Not thread-safe.
class RunHistory {
 public:
  explicit RunHistory(const RunHistoryOptions& options) : options_(options) {}

  // Its text as it is kept. The time of a run that was resumed goes on where the part before ended.
  std::string Add(Record record);
  // All as one JSON array, oldest first.
  std::string Json() const;

 private:
  struct Kept {
    uint64_t number = 0;  // in the order in which they came
    std::string text;
  };
  size_t MostOf(const std::string& kind) const;

  const RunHistoryOptions options_;
  std::map<std::string, std::vector<Kept>> kinds_;
  uint64_t next_ = 0;
  double before_ = 0;  // seconds of earlier parts
  double last_ = 0;
};

// JSON for a page: what is no text in UTF-8 is replaced.
std::string JsonText(const Record& record);

}  // namespace psgd
