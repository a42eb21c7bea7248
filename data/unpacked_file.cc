#include "data/unpacked_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

constexpr size_t kUnpackedPiece = 256 * 1024;
// Deflate spends at least two bits on 258 bytes, so its ratio is at most 1032.
constexpr uint64_t kLargestRatio = 1032;
constexpr char kEndsEarly[] =
    "the gzip data ends early, as after a broken download; fetch the file again";
constexpr int kGzipOnly = 15 + 16;  // zlib's windowBits for a gzip wrapper

}  // namespace

absl::StatusOr<std::unique_ptr<UnpackedFile>> UnpackedFile::Open(const std::string& path) {
  PSGD_ASSIGN_OR_RETURN(RangeFile file, RangeFile::Open(path));
  std::unique_ptr<UnpackedFile> opened(new UnpackedFile(std::move(file)));
  PSGD_RETURN_IF_ERROR(opened->DetectGzip());
  return opened;
}

UnpackedFile::~UnpackedFile() {
  if (gzip_) inflateEnd(&stream_);
}

absl::Status UnpackedFile::Bad(absl::string_view problem) const {
  return DataLossError(file_.path(), ": ", problem);
}

uint64_t UnpackedFile::most_bytes() const {
  if (!gzip_) return file_.size();
  const uint64_t limit = std::numeric_limits<uint64_t>::max() / kLargestRatio;
  return std::min(file_.size(), limit) * kLargestRatio;
}

absl::Status UnpackedFile::DetectGzip() {
  PSGD_RETURN_IF_ERROR(Refill());
  if (stream_.avail_in == 0 && absl::EndsWith(file_.path(), ".gz")) {
    return Bad("is empty, as after a broken download; fetch the file again");
  }
  if (stream_.avail_in == 1 && input_[0] == 0x1f) return Bad(kEndsEarly);
  if (stream_.avail_in < 2 || input_[0] != 0x1f || input_[1] != 0x8b) return absl::OkStatus();
  if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  gzip_ = true;
  return absl::OkStatus();
}

absl::Status UnpackedFile::Refill() {
  input_.resize(std::min<uint64_t>(kUnpackedPiece, file_.size() - taken_));
  PSGD_RETURN_IF_ERROR(file_.Read(taken_, input_));
  taken_ += input_.size();
  stream_.next_in = input_.data();
  stream_.avail_in = static_cast<uInt>(input_.size());
  return absl::OkStatus();
}

absl::StatusOr<size_t> UnpackedFile::ReadPlain(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    if (stream_.avail_in == 0) PSGD_RETURN_IF_ERROR(Refill());
    if (stream_.avail_in == 0) break;
    const size_t part = std::min<size_t>(stream_.avail_in, out.size() - done);
    std::memcpy(out.data() + done, stream_.next_in, part);
    stream_.next_in += part;
    stream_.avail_in -= static_cast<uInt>(part);
    done += part;
  }
  return done;
}

absl::StatusOr<size_t> UnpackedFile::ReadGzip(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    if (stream_.avail_in == 0) PSGD_RETURN_IF_ERROR(Refill());
    if (stream_.avail_in == 0) {
      if (between_members_) break;
      return Bad(kEndsEarly);
    }
    if (between_members_) {
      inflateReset(&stream_);
      between_members_ = false;
    }
    const size_t room = std::min<size_t>(out.size() - done, std::numeric_limits<uInt>::max());
    stream_.next_out = out.data() + done;
    stream_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    done += room - stream_.avail_out;
    if (result == Z_STREAM_END) {
      between_members_ = true;
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {  // Z_BUF_ERROR: wants more input
      return Bad(absl::StrCat("the gzip data is damaged (",
                              stream_.msg == nullptr ? "cannot be unpacked" : stream_.msg,
                              "); fetch the file again"));
    }
  }
  return done;
}

absl::StatusOr<size_t> UnpackedFile::ReadSome(std::span<uint8_t> out) {
  return gzip_ ? ReadGzip(out) : ReadPlain(out);
}

absl::Status UnpackedFile::Read(std::span<uint8_t> out) {
  PSGD_ASSIGN_OR_RETURN(const size_t got, ReadSome(out));
  if (got == out.size()) return absl::OkStatus();
  return Bad(absl::StrCat("ends early: ", out.size() - got,
                          " bytes are missing, as after a broken download; fetch the file again"));
}

absl::Status UnpackedFile::ExpectEnd() {
  uint8_t beyond;
  PSGD_ASSIGN_OR_RETURN(const size_t got, ReadSome({&beyond, 1}));
  if (got == 0) return absl::OkStatus();
  return Bad("is longer than its header announces; it is not what its name says, or damaged");
}

}  // namespace psgd
