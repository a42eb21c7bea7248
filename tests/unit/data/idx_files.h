// Small idx datasets, sound until a test damages them.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "tests/unit/data/scratch.h"

namespace psgd {

inline std::string IdxHeader(const std::vector<uint32_t>& sizes) {
  std::string header{0, 0, 8, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) header += static_cast<char>(size >> shift);
  }
  return header;
}

// Numbers of a type, big-endian, below their header.
template <typename T>
std::string IdxOf(char type, const std::vector<uint32_t>& sizes, const std::vector<T>& numbers) {
  std::string file = IdxHeader(sizes);
  file[2] = type;
  for (const T& number : numbers) {
    const auto* bytes = reinterpret_cast<const char*>(&number);
    file.append(std::make_reverse_iterator(bytes + sizeof(T)), std::make_reverse_iterator(bytes));
  }
  return file;
}

// Byte i is i mod `below`.
inline std::string Ramp(size_t size, int below) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i % static_cast<size_t>(below));
  }
  return bytes;
}

inline constexpr const char* kTrainImages = "train-images-idx3-ubyte";
inline constexpr const char* kTrainLabels = "train-labels-idx1-ubyte";
inline constexpr const char* kTestImages = "t10k-images-idx3-ubyte";
inline constexpr const char* kTestLabels = "t10k-labels-idx1-ubyte";

// 20 and 7 images of 3x5 pixels in 4 classes.
inline void WriteIdxFolder(const ScratchFolder& folder) {
  WriteFile(folder.File(kTrainImages), IdxHeader({20, 3, 5}) + Ramp(20 * 15, 256));
  WriteFile(folder.File(kTrainLabels), IdxHeader({20}) + Ramp(20, 4));
  WriteFile(folder.File(kTestImages), IdxHeader({7, 3, 5}) + Ramp(7 * 15, 256));
  WriteFile(folder.File(kTestLabels), IdxHeader({7}) + Ramp(7, 4));
}

}  // namespace psgd
