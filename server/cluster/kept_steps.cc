#include "server/cluster/kept_steps.h"

#include <algorithm>
#include <utility>

namespace psgd {

void KeptSteps::Add(std::vector<JournalEntry> entries) {
  for (JournalEntry& entry : entries) {
    const size_t end = End(last()) + entry.bytes();
    steps_.push_back({std::move(entry), end});
  }
}

void KeptSteps::DropFirst() {
  begin_ = steps_.front().end;
  steps_.pop_front();
  ++first_;
}

size_t KeptSteps::BytesAfter(uint64_t step, uint64_t last) const {
  last = std::min(last, this->last());
  return step < last ? End(last) - End(step) : 0;
}

}  // namespace psgd
