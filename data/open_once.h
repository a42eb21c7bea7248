// One data set for all who ask in a process.
#pragma once

#include <functional>

#include "data/open_data.h"

namespace psgd {

// As OpenData.
using DataOpener = std::function<absl::StatusOr<DataSets>(const DataConfig&, uint64_t seed)>;

// Opens with `open` the first time that it is asked with these settings; who asks again, or
// meanwhile, gets the same samples, which do not change. What could not be opened is tried again.
// Sets that count damaged samples are opened for each who asks, for the count is its own; they are
// of pictures, of which only the list is in memory. The function is thread-safe; it and its copies
// keep what was opened.
DataOpener OpenOnce(DataOpener open);

}  // namespace psgd
