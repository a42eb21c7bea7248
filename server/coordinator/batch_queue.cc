#include "server/coordinator/batch_queue.h"

#include <algorithm>

namespace psgd {
namespace {

uint32_t BatchIn(const BatchStretch& stretch, uint64_t i) {
  return static_cast<uint32_t>(stretch.first() + i * std::max(1u, stretch.step()));
}

}  // namespace

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
    // The second batch of a stretch says its steps.
    if (last.count() == 1 && batch > last.first()) last.set_step(batch - last.first());
    if (BatchIn(last, last.count()) == batch) {
      last.set_count(last.count() + 1);
      return;
    }
  }
  stretches_.emplace_back().set_first(batch);
  stretches_.back().set_count(1);
}

BatchQueue BatchQueue::Take(uint64_t count) {
  BatchQueue taken;
  while (taken.size_ < count && size_ > 0) {
    BatchStretch& next = stretches_.front();
    BatchStretch& here = taken.stretches_.emplace_back(next);
    here.set_count(static_cast<uint32_t>(std::min<uint64_t>(next.count(), count - taken.size_)));
    taken.size_ += here.count();
    size_ -= here.count();
    next.set_first(BatchIn(next, here.count()));
    next.set_count(next.count() - here.count());
    if (next.count() == 0) stretches_.pop_front();
  }
  return taken;
}

uint32_t BatchReader::At(uint64_t place) {
  while (place - before_ >= record_[stretch_].count()) before_ += record_[stretch_++].count();
  return BatchIn(record_[stretch_], place - before_);
}

}  // namespace psgd
