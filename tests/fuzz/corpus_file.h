// Writes the files that fuzzing begins with, and the pieces that inputs are made of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace psgd::fuzz {

inline void WriteCorpusFile(const std::filesystem::path& path, const std::string& contents) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << contents;
}

// Little-endian.
template <typename Number>
std::string NumberBytes(Number number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

// Its length, then itself. REQUIRES: it is not longer than the number can say.
template <typename Length>
std::string WithLength(const std::string& bytes) {
  return NumberBytes(static_cast<Length>(bytes.size())) + bytes;
}

}  // namespace psgd::fuzz
