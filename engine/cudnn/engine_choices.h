// The fastest cuDNN engine of each problem, kept in the process and in a file. So later processes
// start at once and use the same engines, which gives the same bits.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace psgd::cudnn {

// Thread-safe. Processes may share a file: each appends lines "ENGINE<tab>PROBLEM", and the last
// line of a problem counts. A file that cannot be read or written is ignored.
class EngineChoices {
 public:
  // The process's choices for that file; empty: without a file. They live as long as the process.
  static EngineChoices& Of(const std::string& file);

  explicit EngineChoices(std::string file) : file_(std::move(file)) {}

  // A lock: while it lives, no other thread or process that shares the file measures. Otherwise
  // times would be wrong and choices would differ. A thread that waited for the lock finds the
  // choices made meanwhile.
  class Measuring {
   public:
    explicit Measuring(EngineChoices* choices);
    ~Measuring();
    Measuring(const Measuring&) = delete;
    Measuring& operator=(const Measuring&) = delete;

   private:
    std::lock_guard<std::mutex> lock_;
    int file_;  // locked, unless another holder hangs; -1: no file
  };

  // An index into the engines in cuDNN's order. REQUIRES: `problem` is one line.
  std::optional<int> Find(const std::string& problem);
  void Remember(const std::string& problem, int engine);

 private:
  // Opens the file for reading and appending; -1: failed.
  int Open() const;
  // REQUIRES: mutex_ held.
  void ReadFile();

  const std::string file_;
  std::mutex measuring_;
  std::mutex mutex_;
  std::map<std::string, int> engines_;  // guarded by mutex_
};

}  // namespace psgd::cudnn
