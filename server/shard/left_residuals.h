// Residuals in a checkpoint of workers that the resumed run does not have.
#pragma once

#include <cstdint>
#include <map>

#include "common/bytes.h"

namespace psgd {

// `states`: residuals of one slice by worker, as in compression/saved_state.h. The residual of a
// worker w >= `workers` is added to that of w % workers, which pushes both. The memory of w's
// encoder is given up, as when a worker leaves: it affects later steps, but is not owed. REQUIRES:
// workers > 0.
void HandOnResiduals(uint32_t workers, uint64_t elements, std::map<uint32_t, Bytes>* states);

}  // namespace psgd
