// All runs in a folder, for pages that list and compare them. Runs with broken or missing files are
// listed as damaged.
#pragma once

#include <map>
#include <string>

#include "dashboard/run_history.h"

namespace psgd {

// Not thread-safe.
class RunLibrary {
 public:
  explicit RunLibrary(std::string root) : root_(std::move(root)) {}

  // Reads what changed since the last call. Returns false if nothing changed.
  bool Scan();
  // A JSON array of rows, ordered by name.
  const std::string& Rows() const { return rows_; }
  // All records of one run. NOT_FOUND: no run has this name.
  absl::StatusOr<std::string> Run(const std::string& id) const;

 private:
  struct Known {
    std::string stamp;  // times and sizes of the run's files; if they change, the run is read again
    Record row;
  };

  const std::string root_;
  std::map<std::string, Known> runs_;  // by path below the root
  std::string rows_ = "[]";
};

// The row of one run directory in the list.
Record RunRow(const std::string& path, const std::string& id);

}  // namespace psgd
