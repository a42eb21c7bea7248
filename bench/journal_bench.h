// The cost of writing pushes to a journal before a shard acknowledges them, on one core, compared
// with plain writes (and syncs) of the same bytes to a file beside it.
#pragma once

#include <string>
#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"

namespace psgd {

struct JournalBenchOptions {
  std::string folder;    // on the disk to measure; what the benchmark creates is removed
  double seconds = 1.5;  // per case
  int group = 8;         // pushes that are written together
};

// Returns rows named LEVEL/PUSH: memory, journal and fsync; sparse pushes of about 10 KB and dense
// pushes of 4 MiB. gbps counts payload bytes absorbed and acknowledged. The limit of memory is that
// of a copy. extra: "pushes_per_second", "group". Verified: a shard rebuilt from the journal has
// the weights.
absl::StatusOr<std::vector<BenchRow>> RunJournalBench(const JournalBenchOptions& options);

}  // namespace psgd
