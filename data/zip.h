// Zip archives, as numpy.savez writes them: members stored or deflated, Zip64 included.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/range_file.h"

namespace psgd {

// Thread-safe: reading changes nothing. Every error names the file and the member.
class ZipFile {
 public:
  // Reads the list of members. A member that is encrypted or packed in another way is an error.
  static absl::StatusOr<ZipFile> Open(const std::string& path);

  std::vector<std::string> names() const;
  bool Has(const std::string& name) const { return members_.count(name) > 0; }
  // The bytes of a member, whose checksum is verified. REQUIRES: Has(name).
  absl::StatusOr<std::vector<uint8_t>> Read(const std::string& name) const;

 private:
  struct Member {
    bool deflated = false;
    uint32_t checksum = 0;
    uint64_t packed = 0;  // bytes in the file
    uint64_t unpacked = 0;
    uint64_t header = 0;  // offset of the member's own header
  };

  explicit ZipFile(RangeFile file) : file_(std::move(file)) {}
  absl::Status ReadMembers();
  absl::Status AddMember(const std::vector<uint8_t>& list, size_t* at);
  absl::StatusOr<uint64_t> StartOf(const std::string& name, const Member& member) const;

  RangeFile file_;
  std::map<std::string, Member> members_;
};

}  // namespace psgd
