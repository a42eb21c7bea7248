// The latest steps of a shard's journal, in memory, for copies that lack them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "server/shard/journal.h"

namespace psgd {

// Steps are numbered without gaps. Not thread-safe.
class KeptSteps {
 public:
  // Keeps nothing yet; the next step has this number.
  explicit KeptSteps(uint64_t next = 1) : first_(next) {}

  void Add(std::vector<JournalEntry> entries);
  // REQUIRES: !empty().
  void DropFirst();

  bool empty() const { return steps_.empty(); }
  uint64_t first() const { return first_; }
  uint64_t last() const { return first_ + steps_.size() - 1; }
  size_t bytes() const { return BytesAfter(first_ - 1, last()); }
  // Bytes of the kept steps after `step` up to `last`.
  size_t BytesAfter(uint64_t step, uint64_t last) const;
  // REQUIRES: the step is kept.
  const JournalEntry& at(uint64_t step) const { return steps_[step - first_].entry; }

 private:
  struct Step {
    JournalEntry entry;
    size_t end = 0;  // bytes of all steps up to this one
  };
  size_t End(uint64_t step) const { return step < first_ ? begin_ : steps_[step - first_].end; }

  uint64_t first_;
  size_t begin_ = 0;  // bytes of all dropped steps
  std::deque<Step> steps_;
};

}  // namespace psgd
