// Writes .npy arrays and .npz archives as NumPy does.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/data/scratch.h"

namespace psgd {

inline std::string LittleEndian(uint64_t number, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(number >> 8 * i));
  return text;
}

// `type`: as '<f4', for T.
template <typename T>
std::string NpyOf(const std::string& type, const std::vector<size_t>& shape,
                  const std::vector<T>& values, const std::string& order = "False") {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': ", order, ", 'shape': (",
                   absl::StrJoin(shape, ", "), shape.size() == 1 ? "," : "", "), }");
  header.resize((header.size() + 10) / 64 * 64 + 53, ' ');
  header.push_back('\n');
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return absl::StrCat("\x93NUMPY", std::string("\x01\x00", 2), LittleEndian(header.size(), 2),
                      header, bytes);
}

// `large`: with the sizes and offsets of Zip64, as NumPy writes them.
inline std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& members,
                         bool deflated = false, bool large = false) {
  std::string bytes, list;
  for (const auto& [name, content] : members) {
    const std::string packed = deflated ? Deflated(content, kNoWrapper) : content;
    const auto sum =
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const auto sizes = [&](bool in_list) {
      return absl::StrCat(LittleEndian(content.size(), 8), LittleEndian(packed.size(), 8),
                          in_list ? LittleEndian(bytes.size(), 8) : "");
    };
    const auto extra = [&](bool in_list) {
      const std::string own = sizes(in_list);
      return large ? absl::StrCat(LittleEndian(1, 2), LittleEndian(own.size(), 2), own) : "";
    };
    const std::string common = absl::StrCat(
        LittleEndian(0, 2), LittleEndian(deflated ? 8 : 0, 2), LittleEndian(0, 4),
        LittleEndian(sum, 4), LittleEndian(large ? 0xFFFFFFFF : packed.size(), 4),
        LittleEndian(large ? 0xFFFFFFFF : content.size(), 4), LittleEndian(name.size(), 2));
    const std::string of_list = extra(true), own = extra(false);
    absl::StrAppend(&list, "PK\x01\x02", LittleEndian(20, 2), LittleEndian(20, 2), common,
                    LittleEndian(of_list.size(), 2), LittleEndian(0, 10),
                    LittleEndian(large ? 0xFFFFFFFF : bytes.size(), 4), name, of_list);
    absl::StrAppend(&bytes, "PK\x03\x04", LittleEndian(20, 2), common, LittleEndian(own.size(), 2),
                    name, own, packed);
  }
  const size_t start = bytes.size();
  bytes += list;
  if (large) {
    const size_t end = bytes.size();
    absl::StrAppend(&bytes, "PK\x06\x06", LittleEndian(44, 8), LittleEndian(45, 2),
                    LittleEndian(45, 2), LittleEndian(0, 8), LittleEndian(members.size(), 8),
                    LittleEndian(members.size(), 8), LittleEndian(list.size(), 8),
                    LittleEndian(start, 8));
    absl::StrAppend(&bytes, "PK\x06\x07", LittleEndian(0, 4), LittleEndian(end, 8),
                    LittleEndian(1, 4));
  }
  absl::StrAppend(&bytes, "PK\x05\x06", LittleEndian(0, 4), LittleEndian(members.size(), 2),
                  LittleEndian(members.size(), 2),
                  LittleEndian(large ? 0xFFFFFFFF : list.size(), 4),
                  LittleEndian(large ? 0xFFFFFFFF : start, 4), LittleEndian(0, 2));
  return bytes;
}

}  // namespace psgd
