#include "experiment/launch/program_dir.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace psgd {

absl::StatusOr<std::string> ProgramDir() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return UnavailableError("cannot read /proc/self/exe: ", error.message(), "; is /proc mounted?");
  }
  return path.parent_path().string();
}

absl::StatusOr<std::string> SiblingProgram(const std::string& name) {
  PSGD_ASSIGN_OR_RETURN(const std::string dir, ProgramDir());
  std::string path = absl::StrCat(dir, "/", name);
  if (access(path.c_str(), X_OK) == 0) return path;
  return FailedPreconditionError(
      "no program ", path,
      "; the programs of psgd belong in one folder: build or install them all");
}

absl::StatusOr<std::string> ShippedFile(const std::string& path) {
  PSGD_ASSIGN_OR_RETURN(const std::string dir, ProgramDir());
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const std::string& place :
       {absl::StrCat("/../../../", path), absl::StrCat("/../share/psgd/", name)}) {
    if (access((dir + place).c_str(), R_OK) == 0)
      return std::filesystem::path(dir + place).lexically_normal().string();
  }
  return NotFoundError("no ", path, ": neither beside this build nor installed");
}

absl::StatusOr<std::string> FoundProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* folders = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(folders == nullptr ? "" : folders, ':')) {
    std::string path = absl::StrCat(folder, "/", name);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return NotFoundError("no program ", name, " in any folder of PATH; install it, or give its path");
}

}  // namespace psgd
