// How many images a second become samples, compared with decoding alone. The loader's threads
// decode, cut, resize, mirror and normalize JPEG files into batches.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"

namespace psgd {

struct DataBenchOptions {
  int threads = 1;
  int size = 224;   // of a sample, pixels a side
  int width = 500;  // of the images, which are generated and held in memory
  int height = 375;
  int images = 256;
  double seconds = 2;  // timed for each row
};

// Returns two rows, train (random resized crops, mirrored) and test (the middle), in bytes of fp32
// pixels a second. The limit is the speed of as many threads that only decode the same images in
// full. Large images are decoded at a fraction of their size, so ratio may exceed 1. extra:
// "images_per_second", "decoded_per_second" (of the limit), "threads", "jpeg_bytes" (mean).
// `verified`: the batches equal those of one thread, and the middle of a known image is right.
absl::StatusOr<std::vector<BenchRow>> RunDataBench(const DataBenchOptions& options);

}  // namespace psgd
