// Collects what is wrong in a text, so that one error names all of it.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status.h"

namespace psgd {

class Mistakes {
 public:
  // Takes each line of an error, which may be that of other Mistakes. OK has none.
  void Add(const absl::Status& status) {
    if (status.ok()) return;
    for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
      if (line == kMore || lines_.size() == kMost) {
        stopped_ = true;
        return;
      }
      lines_.emplace_back(line);
    }
    stopped_ = stopped_ || lines_.size() == kMost;
  }
  // The reader looks no further.
  void Stop() { stopped_ = true; }
  // So many that the reader should look no further.
  bool stopped() const { return stopped_; }

  absl::Status status() const {
    if (lines_.empty()) return absl::OkStatus();
    return InvalidArgumentError(absl::StrJoin(lines_, "\n"), stopped_ ? "\n" : "",
                                stopped_ ? kMore : "");
  }

 private:
  static constexpr size_t kMost = 10;  // lines
  static constexpr char kMore[] = "and perhaps more";

  std::vector<std::string> lines_;
  bool stopped_ = false;
};

}  // namespace psgd
