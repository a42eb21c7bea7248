// Which of cuDNN's engines was fastest for each problem: known to the process, and by a file to
// later ones, so that they start at once and compute with the same engines, to the bit.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace psgd::cudnn {

// Thread-safe. Processes may share a file: each adds lines of "ENGINE<tab>PROBLEM" to its end, and
// the last one of a problem counts. One that cannot be read or written is as none.
class EngineChoices {
 public:
  // The process's for that file; empty: for none. Lives as long as the process.
  static EngineChoices& Of(const std::string& file);

  explicit EngineChoices(std::string file) : file_(std::move(file)) {}

  // While it lives, no other thread or process that shares the file measures: their times would not
  // be true, and each would choose for itself. One that waits finds, once it may go on, what was
  // chosen meanwhile.
  class Measuring {
   public:
    explicit Measuring(EngineChoices* choices);
    ~Measuring();
    Measuring(const Measuring&) = delete;
    Measuring& operator=(const Measuring&) = delete;

   private:
    std::lock_guard<std::mutex> lock_;
    int file_;  // locked; -1: there is none, or who holds it hangs
  };

  // An index into the engines in cuDNN's order. REQUIRES: `problem` is one line.
  std::optional<int> Find(const std::string& problem);
  void Remember(const std::string& problem, int engine);

 private:
  // For reading and appending; -1: it cannot be.
  int Open() const;
  // REQUIRES: mutex_ held.
  void ReadFile();

  const std::string file_;
  std::mutex measuring_;
  std::mutex mutex_;
  std::map<std::string, int> engines_;  // guarded by it
};

}  // namespace psgd::cudnn
