// What an exported network reads and gives, for programs that go on with it.
#pragma once

#include <string>

#include "common/status.h"
#include "experiment/record/weights_collector.h"

namespace psgd {

// Writes FILE.json beside an exported FILE: the scales and the order of the network's inputs, its
// targets and classes. Returns the path. Empty: the run has no record of its data, as that of a
// program.
absl::StatusOr<std::string> WriteDataRecord(const WeightsCollector& weights,
                                            const std::string& file);

}  // namespace psgd
