// What this machine can do at best, measured in the same run as what is compared with it.
#pragma once

namespace psgd {

// GB/s copied by one core, buffers far larger than the caches.
double MeasureMemcpy();
// GB/s of traffic of one core's a[i] = b[i] + s * c[i]: two reads and a write an element.
double MeasureTriad();

}  // namespace psgd
