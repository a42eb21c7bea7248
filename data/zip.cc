#include "data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <span>
#include <utility>

namespace psgd {
namespace {

// APPNOTE.TXT of PKWARE: numbers are little-endian; sizes are those of the fixed parts.
constexpr uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocatorMark = 0x07064b50;
constexpr uint32_t kMemberMark = 0x02014b50, kHeaderMark = 0x04034b50;
constexpr size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr size_t kMemberBytes = 46, kHeaderBytes = 30;
constexpr uint32_t kIn64 = 0xFFFFFFFF;     // the value is in the extra field
constexpr uint16_t kExtra64 = 1;           // the extra field's id
constexpr size_t kLongestComment = 65535;  // behind the end
constexpr uint64_t kMostListBytes = 1 << 24;
constexpr uint64_t kMostDeflateRatio = 1032;  // deflate spends at least two bits on 258 bytes

uint64_t Number(std::span<const uint8_t> bytes, size_t at, size_t size) {
  uint64_t number = 0;
  for (size_t i = size; i-- > 0;) number = number << 8 | bytes[at + i];
  return number;
}
uint32_t Mark(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint32_t>(Number(bytes, at, 4));
}

absl::Status BadZip(const std::string& path, absl::string_view problem) {
  return DataLossError(path, ": ", std::string(problem),
                       "; it is damaged, or no .npz file: write it again with numpy.savez");
}

// The list of members: where it begins, and its bytes.
struct ListPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

absl::StatusOr<ListPlace> FindList(const RangeFile& file) {
  const uint64_t tail = std::min<uint64_t>(file.size(), kEndBytes + kLongestComment);
  std::vector<uint8_t> bytes(tail);
  PSGD_RETURN_IF_ERROR(file.Read(file.size() - tail, bytes));
  for (size_t at = tail < kEndBytes ? 0 : tail - kEndBytes + 1; at-- > 0;) {
    if (Mark(bytes, at) != kEndMark) continue;
    const ListPlace place = {Number(bytes, at + 16, 4), Number(bytes, at + 12, 4)};
    if (place.offset != kIn64 && place.bytes != kIn64) return place;
    if (at < kLocatorBytes || Mark(bytes, at - kLocatorBytes) != kLocatorMark) return place;
    const uint64_t end64 = Number(bytes, at - kLocatorBytes + 8, 8);
    std::vector<uint8_t> record(kEnd64Bytes);
    if (end64 > file.size() - std::min<uint64_t>(file.size(), kEnd64Bytes)) break;
    PSGD_RETURN_IF_ERROR(file.Read(end64, record));
    if (Mark(record, 0) != kEnd64Mark) break;
    return ListPlace{Number(record, 48, 8), Number(record, 40, 8)};
  }
  return BadZip(file.path(), "no list of members at its end");
}

// Sets the values that the fixed part has no room for. False: the extra field ends early.
bool TakeExtra64(std::span<const uint8_t> extra, std::initializer_list<uint64_t*> values) {
  while (extra.size() >= 4) {
    const uint64_t id = Number(extra, 0, 2), size = Number(extra, 2, 2);
    extra = extra.subspan(4);
    if (size > extra.size()) return false;
    std::span<const uint8_t> own = extra.first(size);
    extra = extra.subspan(size);
    if (id != kExtra64) continue;
    for (uint64_t* value : values) {
      if (*value != kIn64) continue;
      if (own.size() < 8) return false;
      *value = Number(own, 0, 8);
      own = own.subspan(8);
    }
  }
  return true;
}

bool Inflate(std::span<const uint8_t> packed, std::span<uint8_t> out) {
  constexpr int kNoHeader = -15;
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // zlib counts in 32 bits
  z_stream stream{};
  if (inflateInit2(&stream, kNoHeader) != Z_OK) return false;
  int code = Z_OK;
  size_t taken = 0, made = 0;
  while (code == Z_OK && (stream.avail_in > 0 || taken < packed.size()) && made < out.size()) {
    const size_t in = std::min(packed.size() - taken, kMostAtOnce);
    const size_t room = std::min(out.size() - made, kMostAtOnce);
    stream.next_in = const_cast<Bytef*>(packed.data() + taken);
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = out.data() + made;
    stream.avail_out = static_cast<uInt>(room);
    code = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    made += room - stream.avail_out;
    stream.avail_in = 0;
  }
  inflateEnd(&stream);
  return (code == Z_OK || code == Z_STREAM_END) && made == out.size();
}

}  // namespace

absl::StatusOr<ZipFile> ZipFile::Open(const std::string& path) {
  PSGD_ASSIGN_OR_RETURN(RangeFile file, RangeFile::Open(path));
  ZipFile zip(std::move(file));
  PSGD_RETURN_IF_ERROR(zip.ReadMembers());
  return zip;
}

std::vector<std::string> ZipFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) names.push_back(name);
  return names;
}

absl::Status ZipFile::ReadMembers() {
  PSGD_ASSIGN_OR_RETURN(const ListPlace place, FindList(file_));
  if (place.bytes > std::min(file_.size(), kMostListBytes) ||
      place.offset > file_.size() - place.bytes) {
    return BadZip(file_.path(), "its list of members lies beyond its end");
  }
  std::vector<uint8_t> list(place.bytes);
  PSGD_RETURN_IF_ERROR(file_.Read(place.offset, list));
  for (size_t at = 0; at < list.size();) PSGD_RETURN_IF_ERROR(AddMember(list, &at));
  return absl::OkStatus();
}

absl::Status ZipFile::AddMember(const std::vector<uint8_t>& list, size_t* at) {
  const std::span<const uint8_t> rest = std::span(list).subspan(*at);
  if (rest.size() < kMemberBytes || Mark(rest, 0) != kMemberMark) {
    return BadZip(file_.path(), "its list of members is cut short");
  }
  const uint64_t flags = Number(rest, 8, 2), method = Number(rest, 10, 2);
  const uint64_t name_bytes = Number(rest, 28, 2), extra_bytes = Number(rest, 30, 2);
  const uint64_t whole = kMemberBytes + name_bytes + extra_bytes + Number(rest, 32, 2);
  if (whole > rest.size()) return BadZip(file_.path(), "its list of members is cut short");
  const std::string name(rest.begin() + kMemberBytes,
                         rest.begin() + static_cast<ptrdiff_t>(kMemberBytes + name_bytes));
  Member member = {.deflated = method == Z_DEFLATED,
                   .checksum = Mark(rest, 16),
                   .packed = Number(rest, 20, 4),
                   .unpacked = Number(rest, 24, 4),
                   .header = Number(rest, 42, 4)};
  const bool found = TakeExtra64(rest.subspan(kMemberBytes + name_bytes, extra_bytes),
                                 {&member.unpacked, &member.packed, &member.header});
  const bool encrypted = (flags & 1) != 0;
  const uint64_t most = member.deflated ? kMostDeflateRatio : 1;
  if (!found || encrypted || (method != 0 && !member.deflated) || member.packed > file_.size() ||
      member.unpacked / most > member.packed) {
    return BadZip(file_.path(), "member " + name.substr(0, 64) +
                                    " is encrypted, packed in an unknown way, or of a wrong size");
  }
  members_[name] = member;
  *at += whole;
  return absl::OkStatus();
}

// Where the bytes of a member begin: behind its own header, whose length the list does not say.
absl::StatusOr<uint64_t> ZipFile::StartOf(const std::string& name, const Member& member) const {
  std::vector<uint8_t> header(kHeaderBytes);
  const uint64_t size = file_.size();
  if (member.header <= size && size - member.header >= kHeaderBytes) {
    PSGD_RETURN_IF_ERROR(file_.Read(member.header, header));
    const uint64_t start =
        member.header + kHeaderBytes + Number(header, 26, 2) + Number(header, 28, 2);
    if (Mark(header, 0) == kHeaderMark && start <= size && member.packed <= size - start) {
      return start;
    }
  }
  return BadZip(file_.path(), "member " + name + " lies beyond its end");
}

absl::StatusOr<std::vector<uint8_t>> ZipFile::Read(const std::string& name) const {
  const Member& member = members_.at(name);
  PSGD_ASSIGN_OR_RETURN(const uint64_t start, StartOf(name, member));
  std::vector<uint8_t> packed(member.packed);
  PSGD_RETURN_IF_ERROR(file_.Read(start, packed));
  std::vector<uint8_t> bytes;
  bool good = true;
  if (member.deflated) {
    bytes.resize(member.unpacked);
    good = Inflate(packed, bytes);
  } else {
    good = member.packed == member.unpacked;
    bytes = std::move(packed);
  }
  if (good && crc32_z(0, bytes.data(), bytes.size()) == member.checksum) return bytes;
  return BadZip(file_.path(), "the bytes of " + name + " are damaged");
}

}  // namespace psgd
