// What to do when training diverges.
#pragma once

#include <string>

#include "proto/config.pb.h"

namespace psgd {

// "training diverged: lower the learning rate (optimizer.sgd.learning_rate is 10), ...".
std::string DivergedText(const Config& config);

}  // namespace psgd
