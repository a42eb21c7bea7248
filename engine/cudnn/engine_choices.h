// Which of cuDNN's engines was fastest for each problem: known to the process, and by a file to later ones, so
// that they start at once and compute with the same engines, to the bit.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace psgd::cudnn {

// Thread-safe. Processes may share a file: each adds lines of "ENGINE<tab>PROBLEM" to its end, and the last one
// of a problem counts. One that cannot be read or written is as none.
class EngineChoices {
 public:
  // The process's for that file; empty: for none. Lives as long as the process.
  static EngineChoices& Of(const std::string& file);

  explicit EngineChoices(std::string file) : file_(std::move(file)) {}

  // An index into the engines in cuDNN's order. REQUIRES: `problem` is one line.
  std::optional<int> Find(const std::string& problem);
  void Remember(const std::string& problem, int engine);

 private:
  // REQUIRES: mutex_ held.
  void ReadFile();

  const std::string file_;
  std::mutex mutex_;
  std::map<std::string, int> engines_;  // guarded by it
};

}  // namespace psgd::cudnn
