#include "server/durability/checkpoint_files.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/bytes.h"
#include "common/files.h"
#include "server/durability/checkpoint_format.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBlock = 1 << 20;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path, int flags = O_RDONLY)
      : fd_(open(path.c_str(), flags | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::StatusOr<CheckpointFile> Measure(const std::string& folder, const std::string& name,
                                       bool sync) {
  const std::string path = absl::StrCat(folder, "/", name);
  const OpenFile file(path);
  if (file.fd() < 0) return FileError("open", path, errno);
  Checksum checksum;
  CheckpointFile measured;
  measured.set_name(name);
  std::vector<std::byte> block(kReadBlock);
  for (;;) {
    const ssize_t n = read(file.fd(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("read", path, errno);
    if (n == 0) break;
    checksum.Add({block.data(), static_cast<size_t>(n)});
    measured.set_bytes(measured.bytes() + static_cast<uint64_t>(n));
  }
  if (sync && fsync(file.fd()) != 0) return FileError("sync", path, errno);
  measured.set_checksum(checksum.Value());
  return measured;
}

}  // namespace

std::string NumberedFolder(const std::string& root, absl::string_view prefix, uint64_t id) {
  return absl::StrFormat("%s/%s-%012d", root, prefix, id);
}
std::string CheckpointFolder(const std::string& root, uint64_t id) {
  return NumberedFolder(root, "checkpoint", id);
}
std::string ShardFolder(const std::string& root, uint64_t id, uint32_t shard) {
  return absl::StrCat(CheckpointFolder(root, id), "/shard-", shard);
}
std::string ManifestPath(const std::string& root, uint64_t id) {
  return CheckpointFolder(root, id) + "/manifest";
}

absl::StatusOr<std::vector<uint64_t>> FolderIds(const std::string& root, absl::string_view prefix) {
  std::vector<uint64_t> ids;
  std::error_code error;
  fs::directory_iterator entry(root, error);
  if (error == std::errc::no_such_file_or_directory) return ids;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    uint64_t id = 0;
    if (absl::StartsWith(name, absl::StrCat(prefix, "-")) &&
        absl::SimpleAtoi(name.substr(prefix.size() + 1), &id) &&
        entry->path() == fs::path(NumberedFolder(root, prefix, id))) {
      ids.push_back(id);
    }
  }
  if (error) return FileError("list", root, error.value());
  std::sort(ids.rbegin(), ids.rend());
  return ids;
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? FileError("create", path, error.value()) : absl::OkStatus();
}

absl::Status RemoveFolder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? FileError("remove", path, error.value()) : absl::OkStatus();
}

absl::Status DiscardFolder(const std::string& path) {
  const std::string gone = path + kGoneSuffix;
  PSGD_RETURN_IF_ERROR(RemoveFolder(gone));
  if (!FileExists(path)) return absl::OkStatus();
  PSGD_RETURN_IF_ERROR(RenameFolder(path, gone));
  (void)RemoveFolder(gone);  // it no longer counts; the next call tries again
  return absl::OkStatus();
}

absl::Status RenameFolder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? FileError("rename", from, error.value()) : absl::OkStatus();
}

absl::Status SyncFolder(const std::string& path) {
  const OpenFile folder(path, O_RDONLY | O_DIRECTORY);
  if (folder.fd() < 0) return FileError("open", path, errno);
  // Some file systems cannot sync a folder, and need not.
  if (fsync(folder.fd()) != 0 && errno != EINVAL) return FileError("sync", path, errno);
  return absl::OkStatus();
}

absl::Status SyncFiles(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->is_regular_file()) continue;
    const OpenFile file(at->path().string());
    if (file.fd() < 0) return FileError("open", at->path().string(), errno);
    if (fsync(file.fd()) != 0) return FileError("sync", at->path().string(), errno);
  }
  return error ? FileError("list", folder, error.value()) : SyncFolder(folder);
}

bool FileExists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

absl::StatusOr<std::vector<CheckpointFile>> SyncAndList(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    // LOCK has no contents.
    if (name != "LOCK" && entry->is_regular_file(error)) names.push_back(name);
  }
  if (error) return FileError("list", folder, error.value());
  std::ranges::sort(names);
  std::vector<CheckpointFile> files;
  for (const std::string& name : names) {
    PSGD_ASSIGN_OR_RETURN(CheckpointFile file, Measure(folder, name, /*sync=*/true));
    files.push_back(std::move(file));
  }
  PSGD_RETURN_IF_ERROR(SyncFolder(folder));
  return files;
}

absl::Status VerifyFiles(const std::string& folder,
                         const google::protobuf::RepeatedPtrField<CheckpointFile>& files) {
  for (const CheckpointFile& file : files) {
    if (absl::StrContains(file.name(), '/')) {
      return DataLossError("the manifest lists the file ", file.name());
    }
    const std::string path = absl::StrCat(folder, "/", file.name());
    auto found = Measure(folder, file.name(), /*sync=*/false);
    if (!found.ok()) return absl::DataLossError(std::string(found.status().message()));
    if (found->bytes() != file.bytes()) {
      return DataLossError(path, " has ", found->bytes(), " bytes where ", file.bytes(),
                           " were written");
    }
    if (found->checksum() != file.checksum()) {
      return DataLossError(path, " has changed since it was written (its checksum differs)");
    }
  }
  return absl::OkStatus();
}

namespace {

constexpr char kMagic[8] = {'P', 'S', 'G', 'D', 'C', 'K', 'P', 'T'};
constexpr size_t kLargest = size_t{1} << 30;

struct Head {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t length;
  uint64_t checksum;
};
static_assert(sizeof(Head) == 32);

uint64_t ChecksumOfText(absl::string_view text) { return ChecksumOf(AsBytes(text)); }

}  // namespace

absl::Status WriteManifest(const std::string& path, const CheckpointManifest& manifest) {
  std::string message;
  if (!manifest.SerializeToString(&message) || message.size() > kLargest - sizeof(Head)) {
    return InvalidArgumentError("the manifest for ", path, " is too large");
  }
  Head head{{}, kCheckpointFormatVersion, 0, message.size(), ChecksumOfText(message)};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  std::string contents(reinterpret_cast<const char*>(&head), sizeof head);
  contents += message;
  return WriteFileAtomically(path, contents);
}

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& path) {
  PSGD_ASSIGN_OR_RETURN(const std::string contents, ReadSmallFile(path, kLargest));
  const auto damaged = [&](absl::string_view how) {
    return DataLossError(path, " is damaged: ", how);
  };
  Head head;
  if (contents.size() < sizeof head) return damaged("it is cut off in its head");
  std::memcpy(&head, contents.data(), sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return damaged("it is no manifest");
  if (head.version != kCheckpointFormatVersion || head.zero != 0) {
    return damaged(absl::StrCat("its format version is ", head.version, "; this program reads ",
                                kCheckpointFormatVersion));
  }
  const absl::string_view message = absl::string_view(contents).substr(sizeof head);
  if (message.size() != head.length) {
    return damaged(absl::StrCat("it has ", message.size(), " bytes after its head where ",
                                head.length, " were written"));
  }
  if (ChecksumOfText(message) != head.checksum) return damaged("its checksum differs");
  CheckpointManifest manifest;
  if (!manifest.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return damaged("its message cannot be parsed");
  }
  return manifest;
}

}  // namespace psgd
