// What an exported network reads and gives, for programs that go on with it.
#pragma once

#include <string>

#include "common/status.h"
#include "experiment/record/weights_collector.h"

namespace psgd {

struct DataRecordFile {
  std::string path;  // empty: the run has no record of its data, as in a run of a program
  std::string note;  // for people: why the record lacks the scales of images; empty: it does not
};

// Writes FILE.json beside an exported FILE: the scales and the order of the network's inputs, its
// targets and classes. Nothing can stand beside a device or a pipe.
absl::StatusOr<DataRecordFile> WriteDataRecord(const WeightsCollector& weights,
                                               const std::string& file);

}  // namespace psgd
