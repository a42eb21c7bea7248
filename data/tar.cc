#include "data/tar.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace psgd {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kMostText = 64 * 1024;  // for a long name or pax records

// The place of a header field.
struct Field {
  size_t offset;
  size_t size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr size_t kType = 156;

absl::string_view TextOf(std::span<const uint8_t, 512> header, Field field) {
  const char* text = reinterpret_cast<const char*>(header.data() + field.offset);
  return {text, static_cast<size_t>(std::find(text, text + field.size, '\0') - text)};
}

// Parses octal digits between spaces, or a big-endian number if the highest bit is set (GNU).
std::optional<uint64_t> NumberOf(std::span<const uint8_t, 512> header, Field field) {
  const uint8_t* bytes = header.data() + field.offset;
  uint64_t value = 0;
  if ((bytes[0] & 0x80) != 0) {
    if (bytes[0] != 0x80) return std::nullopt;  // negative, or beyond any file
    for (size_t i = 1; i < field.size; ++i) {
      if (value >> 56 != 0) return std::nullopt;
      value = value << 8 | bytes[i];
    }
    return value;
  }
  absl::string_view digits = TextOf(header, field);
  while (absl::ConsumePrefix(&digits, " ")) {
  }
  while (absl::ConsumeSuffix(&digits, " ")) {
  }
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value << 3 | static_cast<uint64_t>(digit - '0');  // 12 digits: 36 bits
  }
  return value;
}

bool IsEndMark(std::span<const uint8_t, 512> header) {
  return std::all_of(header.begin(), header.end(), [](uint8_t byte) { return byte == 0; });
}

std::string NameOf(std::span<const uint8_t, 512> header) {
  const absl::string_view name = TextOf(header, kName);
  const bool posix = TextOf(header, kMagic) == "ustar";  // GNU writes spaces after the word
  const absl::string_view prefix = posix ? TextOf(header, kPrefix) : "";
  return prefix.empty() ? std::string(name) : absl::StrCat(prefix, "/", name);
}

}  // namespace

absl::Status TarReader::Bad(absl::string_view problem) const {
  return DataLossError(file_.path(), ": the member whose header is at byte ", at_, " ", problem);
}

absl::Status TarReader::CheckHeader(Header header) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    sum += own ? ' ' : header[i];
  }
  if (NumberOf(header, kChecksum) == sum) return absl::OkStatus();
  return Bad("has a wrong checksum: this is no tar archive, or it is damaged; make it again");
}

absl::StatusOr<std::string> TarReader::ReadText(uint64_t offset, uint64_t size) const {
  if (size > kMostText) return Bad(absl::StrCat("has a name of ", size, " bytes; it is damaged"));
  std::string text(size, '\0');
  PSGD_RETURN_IF_ERROR(file_.Read(offset, {reinterpret_cast<uint8_t*>(text.data()), size}));
  return text;
}

// Records are "LENGTH KEY=VALUE\n"; LENGTH is the length of the whole record.
absl::Status TarReader::ReadPax(absl::string_view records, std::optional<std::string>* name,
                                std::optional<uint64_t>* size) const {
  while (!records.empty()) {
    const size_t space = records.find(' ');
    uint64_t length = 0;
    if (space == absl::string_view::npos || !absl::SimpleAtoi(records.substr(0, space), &length) ||
        length > records.size() || length < space + 2 || records[length - 1] != '\n') {
      return Bad("has damaged pax records; make the archive again");
    }
    absl::string_view record = records.substr(space + 1, length - space - 2);
    records.remove_prefix(length);
    uint64_t number = 0;
    if (absl::ConsumePrefix(&record, "path=")) {
      *name = std::string(record);
    } else if (absl::ConsumePrefix(&record, "size=")) {
      if (!absl::SimpleAtoi(record, &number))
        return Bad("has a size in its pax records that is no number");
      *size = number;
    } else if (absl::StartsWith(record, "GNU.sparse.")) {
      return Bad("is sparse, which is not read; make the archive without --sparse");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TarMember>> TarReader::Next() {
  TarMember member;
  member.begin = at_;
  std::optional<std::string> long_name;
  std::optional<uint64_t> long_size;
  while (true) {
    uint8_t bytes[kBlock];
    if (at_ > file_.size() || file_.size() - at_ < kBlock) {
      return Bad(
          "is missing, and there is no end mark: the archive is truncated; make or fetch it again");
    }
    PSGD_RETURN_IF_ERROR(file_.Read(at_, bytes));
    const Header header(bytes);
    if (IsEndMark(header)) return std::nullopt;
    PSGD_RETURN_IF_ERROR(CheckHeader(header));
    const char type = static_cast<char>(header[kType]);
    const bool regular = type == '0' || type == '\0' || type == '7';
    std::optional<uint64_t> size = NumberOf(header, kSize);
    if (regular && long_size) size = long_size;
    const uint64_t data = at_ + kBlock;
    if (!size || *size > file_.size() - data) {
      return Bad(size ? absl::StrCat("announces ", *size, " bytes, of which the file holds ",
                                     file_.size() - data, ": the archive is truncated or damaged")
                      : "has a size that is no number; the archive is damaged");
    }
    if (type == 'S') return Bad("is sparse, which is not read; make the archive without --sparse");
    if (type == 'L') {
      PSGD_ASSIGN_OR_RETURN(std::string name, ReadText(data, *size));
      long_name = name.substr(0, name.find('\0'));
    } else if (type == 'x') {
      PSGD_ASSIGN_OR_RETURN(const std::string records, ReadText(data, *size));
      PSGD_RETURN_IF_ERROR(ReadPax(records, &long_name, &long_size));
    }
    // Cannot overflow: all but the padding, which a damaged archive may lack, is within the file.
    at_ = data + (*size + kBlock - 1) / kBlock * kBlock;
    if (regular) {
      member.name = long_name ? std::move(*long_name) : NameOf(header);
      member.offset = data;
      member.size = *size;
      return member;
    }
    if (type == 'L' || type == 'x') continue;
    member.begin = at_;
    long_name.reset();
    long_size.reset();
  }
}

}  // namespace psgd
