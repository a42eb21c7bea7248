// How ps-doctor shows GPUs.
#pragma once

#include <string>

#include "apps/doctor/gpus.h"
#include "apps/doctor/nvml.h"

namespace psgd {

// "what value\n", the form of all lines of ps-doctor.
std::string Line(const std::string& what, const std::string& value);
std::string GibibytesText(int64_t bytes);

// `found` is the result of DescribeGpus. After an error, `gpus` may have only some of the GPUs.
std::string GpusText(const Gpus& gpus, const absl::Status& found,
                     const absl::StatusOr<Topology>& topology);

}  // namespace psgd
