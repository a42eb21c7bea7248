// How many images a second become samples: JPEG decoded, cut, resized, mirrored and normalised into
// batches by the loader's threads, against decoding alone.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"

namespace psgd {

struct DataBenchOptions {
  int threads = 1;
  int size = 224;   // of a sample, pixels a side
  int width = 500;  // of the images, made up and held in memory
  int height = 375;
  int images = 256;
  double seconds = 2;  // timed for each row
};

// Two rows, train (random resized crops, mirrored) and test (the middle), in bytes of fp32 pixels a
// second. The limit is what the same images give when they are decoded whole by as many threads and
// nothing else is done: large images are decoded at a fraction of their size, so ratio may
// exceed 1. extra: "images_per_second", "decoded_per_second" (of the limit), "threads",
// "jpeg_bytes" (mean). `verified`: the batches are those of one thread, and the middle of a known
// image is what it should be.
absl::StatusOr<std::vector<BenchRow>> RunDataBench(const DataBenchOptions& options);

}  // namespace psgd
