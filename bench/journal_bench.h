// What it costs a shard to write its pushes down before it acknowledges them, on one core, against
// plain writes (and syncs) of the same bytes to a file beside it; and to have a follower write them
// as well, which has threads and a journal of its own in this process and is reached over loopback.
#pragma once

#include <string>
#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"

namespace psgd {

struct JournalBenchOptions {
  std::string folder;    // on the disk in question; what is made there is removed
  double seconds = 1.5;  // a case
  int group = 8;         // pushes that are written down together
};

// Rows named LEVEL/PUSH: memory, journal and fsync; sparse pushes of some 10 KB and
// dense ones of 4 MiB. gbps counts payload bytes absorbed and acknowledged; the limit of memory is
// that of a copy. extra: "pushes_per_second", "group".
// Verified: a shard made again from the journal has the weights.
absl::StatusOr<std::vector<BenchRow>> RunJournalBench(const JournalBenchOptions& options);

}  // namespace psgd
