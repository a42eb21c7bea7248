// The batches of an epoch that are still to be dealt, in the order of dealing.
#pragma once

#include <cstdint>
#include <deque>

#include "google/protobuf/repeated_ptr_field.h"
#include "proto/model.pb.h"

namespace psgd {

// Stores stretches of equal steps: an epoch may have billions of batches, and the remaining ones
// are stored with every report of a worker. What a dead worker of n left undone has steps of n.
class BatchQueue {
 public:
  using Record = google::protobuf::RepeatedPtrField<BatchStretch>;

  BatchQueue() = default;
  // The batches 0, 1, ... count-1.
  static BatchQueue UpTo(uint32_t count);
  explicit BatchQueue(const Record& record);
  Record Save() const { return {stretches_.begin(), stretches_.end()}; }

  void Add(uint32_t batch);
  // Takes the next `count` batches, or as many as there are.
  BatchQueue Take(uint64_t count);

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::deque<BatchStretch> stretches_;  // no stretch is empty
  uint64_t size_ = 0;                   // number of batches in all stretches
};

// Looks batches up by their places in a saved queue, in ascending order of the places.
class BatchReader {
 public:
  // `record` must outlive it.
  explicit BatchReader(const BatchQueue::Record& record) : record_(record) {}

  // REQUIRES: the queue has such a place, and the place of the last call was not after it.
  uint32_t At(uint64_t place);

 private:
  const BatchQueue::Record& record_;
  int stretch_ = 0;
  uint64_t before_ = 0;  // batches of earlier stretches
};

}  // namespace psgd
