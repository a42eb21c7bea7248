// The header of a .safetensors file: the place of each tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

// The file is: u64 little-endian length of the header; the header, a JSON object; the data.
//
//   {"__metadata__": {"key": "value", ...},                    optional
//    "name": {"dtype": "F32", "shape": [6, 1, 5, 5], "data_offsets": [begin, end]}, ...}
//
// Offsets count from the start of the data. The tensors cover the data without gap or overlap.
// Spaces after the object pad the header to a multiple of 8, so that the data is aligned.
inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr uint64_t kSafetensorsMostHeader = 100'000'000;  // limit of PyTorch's reader
inline constexpr size_t kSafetensorsMostDimensions = 64;

struct TensorEntry {
  std::string name;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // byte offsets in the data
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in the order of the data
  std::map<std::string, std::string> metadata;
};

// Checks everything: the grammar (unknown and repeated keys are errors), types, that each shape
// fills its bytes, and that the tensors cover exactly `data_bytes` bytes.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes);

// Returns the padded header. A string that is not UTF-8, or a repeated name, is an error.
absl::StatusOr<std::string> FormatSafetensorsHeader(const SafetensorsHeader& header);

// Returns the number of elements of that shape; an error if negative or beyond 2^61.
absl::StatusOr<uint64_t> ElementsOf(const std::vector<int64_t>& shape);

}  // namespace psgd
