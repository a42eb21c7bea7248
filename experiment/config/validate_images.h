// Checks that the keys of image formats agree.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Appends a sentence for each problem, with its remedy.
void CheckImageKeys(const DataConfig& data, std::vector<std::string>* problems);

}  // namespace psgd
