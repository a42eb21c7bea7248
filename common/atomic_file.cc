#include "common/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace psgd {
namespace {

// Makes a rename in this folder survive a power failure. Some file systems cannot sync a folder and
// do not need it, so errors are ignored.
void SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  const std::string temporary = absl::StrCat(path, ".tmp", ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError("create", temporary, errno);
  return std::unique_ptr<AtomicFile>(new AtomicFile(path, temporary, descriptor));
}

AtomicFile::AtomicFile(const std::string& path, const std::string& temporary, int descriptor)
    : path_(path), temporary_(temporary), descriptor_(descriptor) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) ::unlink(temporary_.c_str());
}

absl::Status AtomicFile::Write(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("write", temporary_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (::fsync(descriptor_) != 0) return FileError("write", temporary_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) return FileError("write", temporary_, errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return FileError("replace", path_, errno);
  }
  committed_ = true;
  SyncFolderOf(path_);
  return absl::OkStatus();
}

}  // namespace psgd
