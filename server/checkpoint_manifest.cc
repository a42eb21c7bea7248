// The manifest file of a checkpoint.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "common/files.h"
#include "server/checkpoint_files.h"
#include "server/checkpoint_format.h"

namespace psgd {
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

uint64_t ChecksumOfText(absl::string_view text) {
  return ChecksumOf(AsBytes(text));
}

}  // namespace

absl::Status WriteManifest(const std::string& path, const CheckpointManifest& manifest) {
  std::string message;
  if (!manifest.SerializeToString(&message) || message.size() > kLargest - sizeof(Head)) {
    return absl::InvalidArgumentError(absl::StrCat("the manifest for ", path, " is too large"));
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
    return absl::DataLossError(absl::StrCat(path, " is damaged: ", how));
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
