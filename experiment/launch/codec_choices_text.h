// What compression.push: auto measured and chose, for people.
#pragma once

#include <string>

#include "proto/control.pb.h"

namespace psgd {

// A table of the tensors that push the most, with what each candidate was predicted to take; the
// others are counted. Empty where nothing was chosen.
std::string CodecChoicesText(const CodecChoices& choices);

}  // namespace psgd
