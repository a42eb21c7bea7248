// How ps-doctor tells of GPUs.
#pragma once

#include <string>

#include "apps/doctor/gpus.h"
#include "apps/doctor/nvml.h"

namespace psgd {

// "what         value\n", as all that ps-doctor prints.
std::string Line(const std::string& what, const std::string& value);
std::string GibibytesText(int64_t bytes);

// `found`: what came of describing them; an error after some of them stopped there.
std::string GpusText(const Gpus& gpus, const absl::Status& found,
                     const absl::StatusOr<Topology>& topology);

}  // namespace psgd
