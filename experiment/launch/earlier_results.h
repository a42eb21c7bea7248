// The results that a run had before it was resumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace psgd {

// Not thread-safe.
class EarlierResults {
 public:
  // Reads them. Empty: a new run, which has none.
  explicit EarlierResults(const std::string& run_dir);

  // Nothing: the run had not finished.
  std::optional<uint64_t> finished_steps() const { return finished_steps_; }
  // Of all its parts. Nothing: it is a new run.
  std::optional<double> seconds() const { return seconds_; }

  // Writes the config and the summary back. Returns whether they are as before.
  bool Restore() const;

 private:
  const std::string run_dir_;
  std::optional<std::string> config_, summary_;  // the files
  std::optional<uint64_t> finished_steps_;
  std::optional<double> seconds_;
};

}  // namespace psgd
