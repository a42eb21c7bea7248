// All runs under a folder, for pages that list and compare them. One whose files are broken or
// missing is listed as such.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dashboard/run_history.h"

namespace psgd {

// Not thread-safe.
class RunLibrary {
 public:
  explicit RunLibrary(std::string root) : root_(std::move(root)) {}

  // Reads what changed since the last time. False: nothing did.
  bool Scan();
  // A JSON array of rows, in the order of their names.
  const std::string& Rows() const { return rows_; }
  // Everything recorded of one run. NOT_FOUND: there is none of this name.
  absl::StatusOr<std::string> Run(const std::string& id) const;

 private:
  struct Known {
    std::string stamp;  // of its files; another one: read them again
    Record row;
  };

  const std::string root_;
  std::map<std::string, Known> runs_;  // by path below the root
  std::string rows_ = "[]";
};

// What the list says of one run directory.
Record RunRow(const std::string& path, const std::string& id);

}  // namespace psgd
