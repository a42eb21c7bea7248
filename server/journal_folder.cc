#include "server/journal_folder.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "server/checkpoint_files.h"

namespace psgd {

std::string JournalFolder(const std::string& server_dir, const std::string& part) {
  return absl::StrCat(server_dir, "/journal/", part);
}

absl::Status MakeJournalFolder(const std::string& server_dir, const Log& log) {
  const std::string folder = JournalFolder(server_dir, "");
  if (FileExists(folder)) return CloseJournalFolder(server_dir, log);
  PSGD_RETURN_IF_ERROR(MakeFolders(folder));
  return CloseJournalFolder(server_dir, NullLog());
}

absl::Status CloseJournalFolder(const std::string& server_dir, const Log& log) {
  using std::filesystem::perms;
  const std::string folder = JournalFolder(server_dir, "");
  std::error_code failed;
  const perms found = std::filesystem::status(folder, failed).permissions();
  if (!failed && (found & perms::mask) == perms::owner_all) return absl::OkStatus();
  if (!failed) std::filesystem::permissions(folder, perms::owner_all, failed);
  if (failed) return FileError("close to others", folder, failed.value());
  if ((found & (perms::group_all | perms::others_all)) != perms::none) {
    log->warn("{} was open to others (mode {:o}), and is closed to them now (700): it holds the run's updates and, "
              "of a secured run, its passes; what they did with them meanwhile, nobody knows",
              folder, static_cast<unsigned>(found & perms::mask));
  }
  return absl::OkStatus();
}

}  // namespace psgd
