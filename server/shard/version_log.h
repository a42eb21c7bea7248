// The steps that made the latest versions of a slice. The log is bounded, and forgets the oldest
// steps first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace psgd {

// Step::version is the version that the step made. Not thread-safe.
template <typename Step>
class VersionLog {
 public:
  // Begins at `version`, and remembers steps with a total `size` of at most `most`.
  VersionLog(size_t most, uint64_t version) : most_(most), known_from_(version), latest_(version) {}

  void Add(Step step, size_t size) {
    latest_ = step.version;
    remembered_ += size;
    steps_.push_back({std::move(step), size});
    while (remembered_ > most_) {
      remembered_ -= steps_.front().size;
      known_from_ = steps_.front().step.version;
      steps_.pop_front();
    }
  }
  // It is unknown how `version` was made.
  void Forget(uint64_t version) {
    steps_.clear();
    remembered_ = 0;
    known_from_ = latest_ = version;
  }

  // The steps from `version` to the latest version, oldest first; nullopt: unknown.
  std::optional<std::vector<const Step*>> Since(uint64_t version) const {
    if (version < known_from_ || version > latest_) return std::nullopt;
    std::vector<const Step*> steps;
    for (auto it = steps_.rbegin(); it != steps_.rend() && it->step.version > version; ++it) {
      steps.push_back(&it->step);
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

 private:
  struct Sized {
    Step step;
    size_t size;
  };

  const size_t most_;
  uint64_t known_from_;
  uint64_t latest_;
  std::deque<Sized> steps_;
  size_t remembered_ = 0;  // total size of all steps
};

}  // namespace psgd
