// The batches of a queue or of a whole segment, one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "server/coordinator/batch_queue.h"

namespace psgd {

inline std::vector<uint32_t> Batches(const BatchQueue::Record& stretches) {
  const uint64_t size = BatchQueue(stretches).size();
  BatchReader reader(stretches);
  std::vector<uint32_t> batches;
  for (uint64_t i = 0; i < size; ++i) batches.push_back(reader.At(i));
  return batches;
}
inline std::vector<uint32_t> Batches(const BatchQueue& queue) { return Batches(queue.Save()); }

}  // namespace psgd
