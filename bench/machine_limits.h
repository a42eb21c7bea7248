// The best speeds of this machine, measured in the same run as the benchmark.
#pragma once

namespace psgd {

// Returns GB/s copied by one core. Buffers are far larger than the caches.
double MeasureMemcpy();
// Returns GB/s of traffic of a[i] = b[i] + s * c[i]: two reads and a write an element. Each thread
// has a core and a part of the buffers of its own.
double MeasureTriad(int threads);

}  // namespace psgd
