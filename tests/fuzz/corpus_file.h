// Writes corpus files and the pieces of their inputs.
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

// Returns the length, then the bytes. REQUIRES: the length fits into Length.
template <typename Length>
std::string WithLength(const std::string& bytes) {
  return NumberBytes(static_cast<Length>(bytes.size())) + bytes;
}

}  // namespace psgd::fuzz
