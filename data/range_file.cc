#include "data/range_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/files.h"
#include "common/units.h"

namespace psgd {

absl::StatusOr<RangeFile> RangeFile::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  RangeFile file(path, fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return FileError("read", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgumentError(path, ": is not a regular file");
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

RangeFile::RangeFile(RangeFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

RangeFile::~RangeFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status RangeFile::Read(uint64_t offset, std::span<uint8_t> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", path_, errno);
    if (got == 0) {
      return DataLossError(path_, ": ends at byte ", offset + done, ", ", out.size() - done,
                           " bytes too early, as after a broken download; fetch the file again");
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint8_t>> ReadWholeFile(const std::string& path, uint64_t limit) {
  PSGD_ASSIGN_OR_RETURN(const RangeFile file, RangeFile::Open(path));
  if (file.size() > limit) {
    return DataLossError(path, ": holds ", HumanBytes(static_cast<double>(file.size())),
                         ", more than the ", HumanBytes(static_cast<double>(limit)),
                         " that such a file may have; is it what its name says?");
  }
  std::vector<uint8_t> bytes(file.size());
  PSGD_RETURN_IF_ERROR(file.Read(0, bytes));
  return bytes;
}

}  // namespace psgd
