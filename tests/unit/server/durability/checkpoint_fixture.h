// Checkpoints in which every value encodes its checkpoint, array and element.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/durability/checkpoint_store.h"

namespace psgd {

// Three trained parameters, one statistic, some 12,000 elements.
ModelSpec TestModel();

// The value of an element of an array. `array`: 0 weights, 1 momentum, 10 + worker: its residual.
float TestValue(uint64_t checkpoint, int array, uint32_t parameter, uint64_t element);

// A finished cut of checkpoint `id` on `shards` shards.
std::vector<ShardSnapshot> TestSnapshots(uint64_t id, const Placement& placement, int shards);
CheckpointManifest TestManifest(uint64_t id, const Placement& placement);
Placement TestPlacement(int shards);

// Checks every value of the loaded checkpoint against TestValue(id, ...), cut for `shards` shards.
void ExpectIsCheckpoint(const LoadedCheckpoint& loaded, uint64_t id, int shards);

// Has a private folder, which is removed at the end.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest();
  ~CheckpointTest() override;

  // Writes all shards' parts; returns the manifest that would seal them.
  CheckpointManifest WriteUnsealed(uint64_t id, int shards);
  void Write(uint64_t id, int shards);
  // Files below `folder`, recursively.
  static std::vector<std::string> FilesIn(const std::string& folder);

  std::string root_;
  CheckpointStore store_;
};

}  // namespace psgd
