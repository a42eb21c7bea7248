// What the keys of image formats must agree on.
#pragma once

#include <string>
#include <vector>

#include "proto/config.pb.h"

namespace psgd {

// Appends what is wrong, and what to do about it.
void CheckImageKeys(const DataConfig& data, std::vector<std::string>* problems);

}  // namespace psgd
