// Reads a tar archive without unpacking it: POSIX ustar and pax, and GNU's long names and sizes. An
// archive is a sequence of members, each
//
//   header   512 bytes, with name, size, type and a checksum over itself
//   data     padded with zeros to a multiple of 512
//
// and ends with blocks of zeros. A member of type L or x holds the name, or name and size, of the
// next member.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/status.h"
#include "data/range_file.h"

namespace psgd {

struct TarMember {
  std::string name;
  uint64_t begin = 0;   // of the member's headers: a TarReader may start here
  uint64_t offset = 0;  // of its data
  uint64_t size = 0;    // of its data, which lies within the file
};

// Reads members in order. Not thread-safe; several readers may share one file.
class TarReader {
 public:
  // REQUIRES: the file outlives the reader; `begin` is 0 or the `begin` of a member.
  explicit TarReader(const RangeFile* file, uint64_t begin = 0) : file_(*file), at_(begin) {}

  // Returns the next regular file; nothing at the archive's end. Folders, links and other types are
  // skipped. DataLoss, with the file and the place in it, if the archive is damaged or ends before
  // its end mark.
  absl::StatusOr<std::optional<TarMember>> Next();

 private:
  using Header = std::span<const uint8_t, 512>;

  absl::Status Bad(absl::string_view problem) const;
  absl::Status CheckHeader(Header header) const;
  absl::StatusOr<std::string> ReadText(uint64_t offset, uint64_t size) const;
  absl::Status ReadPax(absl::string_view records, std::optional<std::string>* name,
                       std::optional<uint64_t>* size) const;

  const RangeFile& file_;
  uint64_t at_;  // of the next header
};

}  // namespace psgd
