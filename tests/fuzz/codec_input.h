// How codec_fuzz reads an input: a slice, then a payload for it.
//   u16 elements, u8 columns of the tensor, u8 where in the tensor the slice begins, the payload
#pragma once

#include <cstring>

#include "compression/codec.h"

namespace psgd::fuzz {

inline constexpr size_t kCodecHeader = 4;

// REQUIRES: size >= kCodecHeader.
inline SliceShape ShapeOfInput(const uint8_t* data) {
  uint16_t elements;
  std::memcpy(&elements, data, sizeof elements);
  SliceShape shape;
  shape.elements = elements;
  shape.tensor_columns = 1 + data[2];
  shape.offset = data[3];
  shape.tensor_rows = (shape.offset + elements) / shape.tensor_columns + 1;
  return shape;
}

}  // namespace psgd::fuzz
