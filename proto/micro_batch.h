// The parts in which a worker computes a batch (data.micro_batch).
#pragma once

#include "proto/config.pb.h"

namespace psgd {

// Samples that a worker computes at once.
inline int MicroBatchOf(const DataConfig& data) {
  return data.micro_batch() == 0 ? data.batch() : data.micro_batch();
}

// REQUIRES: the micro-batch divides the batch.
inline int PartsOfBatch(const DataConfig& data) { return data.batch() / MicroBatchOf(data); }

}  // namespace psgd
