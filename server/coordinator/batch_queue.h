// The batches of an epoch that are still to be dealt, in the order of dealing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "google/protobuf/repeated_ptr_field.h"
#include "proto/model.pb.h"

namespace psgd {

// Stores stretches of consecutive numbers: an epoch may have billions of batches, and the remaining
// ones are stored with every report of a worker.
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
  std::vector<uint32_t> Take(size_t count);

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::deque<BatchStretch> stretches_;  // no stretch is empty
  uint64_t size_ = 0;                   // number of batches in all stretches
};

}  // namespace psgd
