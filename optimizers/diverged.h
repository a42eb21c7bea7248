// What to do when training diverges.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "proto/config.pb.h"

namespace psgd {

// "training diverged: lower the learning rate (optimizer.sgd.learning_rate is 10), ...".
std::string DivergedText(const Config& config);

// The same of a server's weights. `which` are not finite.
std::string WeightsDivergedText(const Config& config, absl::string_view which);

// Whether an error has that text, so that the newest checkpoint is the wrong one to go on from.
bool SaysDiverged(absl::string_view error);

}  // namespace psgd
