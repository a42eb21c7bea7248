#include "server/coordinator/batch_queue.h"

#include <algorithm>

namespace psgd {

BatchQueue BatchQueue::UpTo(uint32_t count) {
  Record record;
  record.Add()->set_count(count);
  return BatchQueue(record);
}

BatchQueue::BatchQueue(const Record& record) {
  for (const BatchStretch& stretch : record) {
    if (stretch.count() == 0) continue;
    stretches_.push_back(stretch);
    size_ += stretch.count();
  }
}

void BatchQueue::Add(uint32_t batch) {
  ++size_;
  if (!stretches_.empty()) {
    BatchStretch& last = stretches_.back();
    if (last.first() + last.count() == batch) {
      last.set_count(last.count() + 1);
      return;
    }
  }
  stretches_.emplace_back().set_first(batch);
  stretches_.back().set_count(1);
}

std::vector<uint32_t> BatchQueue::Take(size_t count) {
  std::vector<uint32_t> taken;
  taken.reserve(std::min<uint64_t>(count, size_));
  while (taken.size() < count && size_ > 0) {
    BatchStretch& next = stretches_.front();
    const auto here = static_cast<uint32_t>(std::min<uint64_t>(next.count(), count - taken.size()));
    for (uint32_t i = 0; i < here; ++i) taken.push_back(next.first() + i);
    size_ -= here;
    next.set_first(next.first() + here);
    next.set_count(next.count() - here);
    if (next.count() == 0) stretches_.pop_front();
  }
  return taken;
}

}  // namespace psgd
