// Binary PGM (P5), the simplest format of gray images: "P5", then width, height and largest value
// as text, one white space, then a byte per pixel. `#` begins a comment up to the line's end.
#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"
#include "data/picture.h"

namespace psgd {

// Returns a picture of one channel. DataLoss says what is wrong, if the bytes are not exactly one
// such image with values of one byte.
absl::StatusOr<Picture> ParsePgm(std::span<const uint8_t> bytes);

}  // namespace psgd
