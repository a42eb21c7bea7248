// The record of how a run's data become what its network reads (Preparation in proto/model.proto).
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/number_scale.h"
#include "data/targets.h"
#include "proto/model.pb.h"

namespace psgd {

Preparation::Scale RecordOf(const NumberScale& scale);
NumberScale ScaleOf(const Preparation::Scale& record);

void RecordClasses(const std::vector<std::string>& names, Preparation* preparation);

// Adds the shape and the targets. If the record has more than 1 MiB, it keeps only the shape
// (too_large).
void CompletePreparation(const SampleShape& shape, const Targets& targets,
                         Preparation* preparation);
// For people: that the record is too large, and what to do.
std::string TooLargeText();

// Without labels of pixels and groups of a test.
SampleShape ShapeOf(const Preparation& preparation);

}  // namespace psgd
