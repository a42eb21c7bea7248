// Opens each data set once per process.
#pragma once

#include <functional>

#include "data/open_data.h"

namespace psgd {

// Has the signature of OpenData.
using DataOpener = std::function<absl::StatusOr<DataSets>(const DataConfig&, uint64_t seed)>;

// The first call with given settings opens the sets with `open`. Later and concurrent calls with
// the same settings get the same samples, which do not change. A failed open is tried again. Sets
// that count damaged samples are opened for each caller, because each caller has its own count;
// such sets are pictures, and only their list is in memory. The returned function is thread-safe.
// It and its copies keep the opened sets.
DataOpener OpenOnce(DataOpener open);

}  // namespace psgd
