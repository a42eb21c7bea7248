// Users' choices of items, as MovieLens lists them, to predict choices.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"
#include "data/dataset.h"

namespace psgd {

struct RatingsOptions {
  // Lines of user, item, rating and time, separated by `::`, tabs or commas. Further fields are
  // ignored, and so is a line of names at the top. Without times, the order of lines counts.
  std::string path;
  int negatives = 4;
  int test_negatives = 99;
  uint64_t seed = 1;
};

// A sample is a pair: the index of a user, and the index of an item, counted after all users. Its
// class is 1 if the user chose the item. For each choice there are `negatives` samples of class 0:
// items that the user never chose, drawn by seed, epoch and sample. A user's last choice, by time
// and then by line, is for the test (if the user chose two items); earlier choices of the same item
// are not used. `test_negatives` items not chosen follow it and stay the same: they compete in a
// group (He et al., "Neural collaborative filtering", 2017). Errors name the file and the line.
absl::StatusOr<TrainAndTest> LoadRatings(const RatingsOptions& options);

}  // namespace psgd
