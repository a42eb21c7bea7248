// Describes for people what compression.push: auto measured and chose.
#pragma once

#include <string>

#include "proto/control.pb.h"

namespace psgd {

// A table of the tensors that push the most bytes, with the predicted time of each candidate. The
// other tensors are only counted. Empty if nothing was chosen.
std::string CodecChoicesText(const CodecChoices& choices);

}  // namespace psgd
