// How codec_fuzz reads an input: a stretch of a tensor, cut into slices, and their shared payload.
//   u16 elements, u8 columns of the tensor, u8 offset in the tensor, u8 slices - 1 (mod 4),
//   the payload
#pragma once

#include <cstring>
#include <vector>

#include "compression/codec.h"

namespace psgd::fuzz {

inline constexpr size_t kCodecHeader = 5;

// Slices of similar length: most begin and end within a row. REQUIRES: size >= kCodecHeader.
inline std::vector<SliceShape> ShapesOfInput(const uint8_t* data) {
  uint16_t elements;
  std::memcpy(&elements, data, sizeof elements);
  SliceShape shape;
  shape.tensor_columns = 1 + data[2];
  shape.offset = data[3];
  shape.tensor_rows = (shape.offset + elements) / shape.tensor_columns + 1;
  std::vector<SliceShape> shapes;
  const uint32_t slices = 1 + data[4] % 4;
  for (uint32_t i = 0, begin = 0; i < slices; ++i) {
    const uint32_t end = elements * (i + 1) / slices;
    shape.elements = end - begin;
    shapes.push_back(shape);
    shape.offset += shape.elements;
    begin = end;
  }
  return shapes;
}

}  // namespace psgd::fuzz
