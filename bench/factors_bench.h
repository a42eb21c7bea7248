// How fast a dense layer's factors are written, and their product made and added, on one core.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "compression/codec.h"

namespace psgd {

// Measures a layer of 4096 x 4096 in batches of 32, whole on one shard, its inputs after a relu.
// Returns rows as RunCodecBench does, in bytes of the fp32 gradient that is not made: factors,
// factors-fp16 and factors-int8.
std::vector<BenchRow> RunFactorsBench(CodecBackend backend, int repeats);

}  // namespace psgd
