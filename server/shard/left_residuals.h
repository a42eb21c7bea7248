// Residuals of a checkpoint whose workers the run that goes on from it will not have.
#pragma once

#include <cstdint>
#include <map>

#include "common/bytes.h"

namespace psgd {

// Of one slice, by worker, as compression/saved_state.h: worker w's from `workers` on is added to
// that of w % workers, who pushes both. What its encoder remembers is given up, as when a worker
// leaves: it says what later steps would have added, not what is owed. REQUIRES: workers > 0.
void HandOnResiduals(uint32_t workers, uint64_t elements, std::map<uint32_t, Bytes>* states);

}  // namespace psgd
