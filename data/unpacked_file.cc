#include "data/unpacked_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"

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
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return FileError("open", path, errno);
  struct stat info {};
  const bool regular = ::fstat(::fileno(file), &info) == 0 && S_ISREG(info.st_mode);
  std::unique_ptr<UnpackedFile> opened(
      new UnpackedFile(path, file, regular ? static_cast<uint64_t>(info.st_size) : 0));
  if (!regular) return opened->Bad("is not a regular file");
  PSGD_RETURN_IF_ERROR(opened->DetectGzip());
  return opened;
}

UnpackedFile::UnpackedFile(std::string path, std::FILE* file, uint64_t size)
    : path_(std::move(path)), file_(file), size_(size) {
  std::setvbuf(file, nullptr, _IONBF, 0);  // input_ is the buffer
}

UnpackedFile::~UnpackedFile() {
  if (gzip_) inflateEnd(&stream_);
}

absl::Status UnpackedFile::Bad(absl::string_view problem) const {
  return absl::DataLossError(absl::StrCat(path_, ": ", problem));
}

uint64_t UnpackedFile::most_bytes() const {
  if (!gzip_) return size_;
  const uint64_t limit = std::numeric_limits<uint64_t>::max() / kLargestRatio;
  return std::min(size_, limit) * kLargestRatio;
}

absl::Status UnpackedFile::DetectGzip() {
  PSGD_RETURN_IF_ERROR(Refill());
  if (stream_.avail_in == 0 && absl::EndsWith(path_, ".gz")) {
    return Bad("is empty, as after a broken download; fetch the file again");
  }
  if (stream_.avail_in == 1 && input_[0] == 0x1f) return Bad(kEndsEarly);
  if (stream_.avail_in < 2 || input_[0] != 0x1f || input_[1] != 0x8b) return absl::OkStatus();
  if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  gzip_ = true;
  return absl::OkStatus();
}

absl::Status UnpackedFile::Refill() {
  input_.resize(kUnpackedPiece);
  const size_t got = std::fread(input_.data(), 1, input_.size(), file_.get());
  if (got == 0 && std::ferror(file_.get())) {
    return FileError("read", path_, errno);
  }
  stream_.next_in = input_.data();
  stream_.avail_in = static_cast<uInt>(got);
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
