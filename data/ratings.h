// Who chose what, as MovieLens lists it, for the prediction of choices.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"
#include "data/sets.h"

namespace psgd {

struct RatingsOptions {
  // Lines of user, item, rating and time, between `::`, tabs or commas; what follows is left out,
  // as are a line of names at the top and, without times, the order.
  std::string path;
  int negatives = 4;
  int test_negatives = 99;
  uint64_t seed = 1;
};

// A sample is a pair: the index of a user, and that of an item behind all users. Its class is 1 for
// what the user chose, 0 for one of `negatives` items for each choice that the user never did,
// drawn by seed, epoch and sample. A user's last choice, by time and then by line, is for the test
// (if the user chose two items), and what was the same item earlier for nothing; it is followed by
// `test_negatives` items not chosen, which stay the same: they compete in a group (He et al.,
// "Neural collaborative filtering", 2017). Errors name the file and the line.
absl::StatusOr<SparseSets> LoadRatings(const RatingsOptions& options);

}  // namespace psgd
