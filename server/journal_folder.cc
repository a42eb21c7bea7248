#include "server/journal_folder.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "server/checkpoint_files.h"

namespace psgd {

std::string JournalFolder(const std::string& server_dir, const std::string& part) {
  return absl::StrCat(server_dir, "/journal/", part);
}

std::string HostRecordFile(const std::string& server_dir) { return server_dir + "/host"; }

absl::Status MakeJournalFolder(const std::string& server_dir) {
  const std::string folder = JournalFolder(server_dir, "");
  PSGD_RETURN_IF_ERROR(MakeFolders(folder));
  std::error_code failed;
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  return failed ? FileError("close to others", folder, failed.value()) : absl::OkStatus();
}

}  // namespace psgd
