#include "server/durability/rocks_log_check.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

// RocksDB's format: blocks of records. A record is a masked CRC-32C of type and payload (4 bytes),
// the payload's length (2), a type (1) and the payload. The last bytes of a block are 0 if no
// header fits.
constexpr size_t kBlock = 32768;
constexpr size_t kHeader = 7;
constexpr size_t kTypeAt = 6;
constexpr uint8_t kLargestType = 9;

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}();

uint32_t MaskedCrc(const uint8_t* data, size_t size) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i) crc = crc >> 8 ^ kCrcTable[(crc ^ data[i]) & 0xff];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

// The part of a block that the file has.
class Block {
 public:
  Block(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  // The offset of the first damaged record; -1: there is none.
  int64_t FindDamage() const {
    for (size_t at = 0; at + kHeader <= size_;) {
      // After a power failure, unwritten bytes may be zeros.
      if (std::all_of(data_ + at, data_ + size_, [](uint8_t byte) { return byte == 0; })) return -1;
      const size_t end = EndOf(at);
      if (end <= size_) {
        if (!IsSound(at, end)) return static_cast<int64_t>(at);
        at = end;
        continue;
      }
      // The records of a whole block end within the block.
      const bool cut_off = size_ < kBlock && !IsSound(at, size_) && !SoundRecordAfter(at);
      return cut_off ? -1 : static_cast<int64_t>(at);
    }
    return -1;
  }

 private:
  size_t EndOf(size_t at) const { return at + kHeader + (data_[at + 4] | data_[at + 5] << 8); }
  // Whether the bytes from `at` to `end` are a record, whatever its length field says.
  bool IsSound(size_t at, size_t end) const {
    uint32_t stored;
    std::memcpy(&stored, data_ + at, sizeof stored);
    return MaskedCrc(data_ + at + kTypeAt, end - at - kTypeAt) == stored;
  }
  bool SoundRecordAfter(size_t at) const {
    for (++at; at + kHeader <= size_; ++at) {
      const uint8_t type = data_[at + kTypeAt];
      if (type == 0 || type > kLargestType || EndOf(at) > size_) continue;
      if (IsSound(at, EndOf(at))) return true;
    }
    return false;
  }

  const uint8_t* const data_;
  const size_t size_;
};

// The files that RocksDB reads as logs: the current manifest and the log of writes.
std::vector<std::string> LogFiles(const std::string& folder) {
  std::vector<std::string> files;
  std::string manifest;
  std::ifstream(folder + "/CURRENT") >> manifest;
  if (manifest.rfind("MANIFEST-", 0) == 0 && manifest.find('/') == std::string::npos) {
    files.push_back(folder + "/" + manifest);
  }
  std::error_code error;
  for (const auto& found : fs::directory_iterator(folder, error)) {
    if (found.path().extension() == ".log") files.push_back(found.path().string());
  }
  std::ranges::sort(files);
  return files;
}

std::string DamageOf(const std::string& file, LogExtent extent) {
  std::error_code error;
  const uint64_t size = fs::file_size(file, error);
  std::ifstream in(file, std::ios::binary);
  if (error || !in || size == 0) return "";
  const uint64_t last = (size - 1) / kBlock * kBlock;
  std::vector<uint8_t> bytes(kBlock);
  for (uint64_t at = extent == LogExtent::kEnds ? last : 0; at < size; at += kBlock) {
    const size_t length = static_cast<size_t>(std::min<uint64_t>(kBlock, size - at));
    in.seekg(static_cast<std::streamoff>(at));
    if (!in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(length)))
      return "";
    const int64_t damage = Block(bytes.data(), length).FindDamage();
    if (damage >= 0) {
      return absl::StrCat(file, ": the record at byte ", at + static_cast<uint64_t>(damage), " of ",
                          size, " is damaged");
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> FindLogDamage(const std::string& folder, LogExtent extent) {
  std::vector<std::string> damage;
  for (const std::string& file : LogFiles(folder)) {
    const std::string found = DamageOf(file, extent);
    if (!found.empty()) damage.push_back(found);
  }
  return damage;
}

absl::Status CheckLogEnds(const std::string& folder) {
  const std::vector<std::string> damage = FindLogDamage(folder, LogExtent::kEnds);
  if (damage.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrJoin(damage, "; "));
}

}  // namespace psgd
