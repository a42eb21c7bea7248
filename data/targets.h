// What samples are to be predicted as, besides classes.
#pragma once

#include <string>
#include <vector>

#include "data/number_scale.h"

namespace psgd {

// The targets of a sample, in the order of their names.
struct Targets {
  enum class Kind {
    kNone,    // samples have classes
    kNumber,  // a target is NumberScale::Of a number, and so is the output of a network
    kCount,   // a target is a number from 0 on, and an output the logarithm of its mean
    kLabel,   // a target is 1 or 0, and an output the log-odds of 1
  };
  Kind kind = Kind::kNone;
  std::vector<std::string> names = {};
  std::vector<NumberScale> scales = {};  // of kNumber, measured on the training part; else 0 and 1
};

}  // namespace psgd
