// Users' choices of items, as MovieLens lists them, to predict choices.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

// data.path has lines of user, item, rating and time, separated by `::`, tabs or commas. Further
// fields are ignored, and so is a line of names at the top. Without times, the order of lines
// counts.
//
// A sample is a pair: the index of a user, and the index of an item, counted after all users. Its
// class is 1 if the user chose the item. For each choice there are `negatives` samples of class 0:
// items that the user never chose, drawn by seed, epoch and sample. A user's last choice, by time
// and then by line, is for the test (if the user chose two items); earlier choices of the same item
// are not used. `test_negatives` items not chosen follow it and stay the same: they compete in a
// group (He et al., "Neural collaborative filtering", 2017). Errors name the file and the line.
absl::StatusOr<TrainAndTest> LoadRatings(const DataConfig& config, uint64_t seed);

}  // namespace psgd
