// How fast the factors of a dense layer are written, and their product made and added, on one core.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "compression/codec.h"

namespace psgd {

// Of a layer of 4096 x 4096 in batches of 32, all of it on one shard, its inputs behind a relu. As
// rows of RunCodecBench, in bytes of the fp32 gradient that is not made; factors, factors-fp16 and
// factors-int8.
std::vector<BenchRow> RunFactorsBench(CodecBackend backend, int repeats);

}  // namespace psgd
