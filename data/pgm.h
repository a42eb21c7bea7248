// Binary PGM (P5), the plainest format of grey images: "P5", width, height and the largest value as
// numbers in text, one white space, then a byte a pixel. `#` begins a comment up to the line's end.
#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"
#include "data/picture.h"

namespace psgd {

// A picture of one channel. DataLoss, with what is wrong, if the bytes are not exactly one such
// image with values of one byte.
absl::StatusOr<Picture> ParsePgm(std::span<const uint8_t> bytes);

}  // namespace psgd
