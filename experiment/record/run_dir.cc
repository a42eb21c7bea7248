#include "experiment/record/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/shell_line.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

std::string Stamp(std::time_t now) {
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local));
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return FileError("make the folder", path, error.value());
  return absl::OkStatus();
}

// Creates a new folder. Later runs of the same second get -2, -3 and so on.
absl::StatusOr<std::string> MakeDefault(const RunDirOptions& options) {
  PSGD_RETURN_IF_ERROR(MakeFolders(options.root));
  const std::string base = absl::StrCat(options.root, "/", options.name, "-", Stamp(options.now));
  constexpr int kMost = 1000;
  for (int i = 1; i <= kMost; ++i) {
    const std::string path = i == 1 ? base : absl::StrCat(base, "-", i);
    std::error_code error;
    if (fs::create_directory(path, error)) return path;
    if (error && error != std::errc::file_exists) {
      return FileError("make the run directory", path, error.value());
    }
  }
  return AlreadyExistsError(base, " and its successors exist; give another with --run-dir");
}

// Whether the directory has nothing but what ps-run lays there first: the data of its etcd.
bool IsEmptyButEtcd(const std::string& path, std::error_code& error) {
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename() != "server" || !at->is_directory(error)) return false;
    for (fs::directory_iterator in(at->path(), error); !error && in != end; in.increment(error)) {
      if (in->path().stem() != "etcd") return false;
    }
  }
  return true;
}

// Returns whether it made the directory.
absl::StatusOr<bool> TakeGiven(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    PSGD_RETURN_IF_ERROR(MakeFolders(path));
    return true;
  }
  if (error) return FileError("look at the run directory", path, error.value());
  if (!fs::is_directory(status)) {
    return InvalidArgumentError("the run directory ", path,
                                " is a file; give a folder with --run-dir");
  }
  const bool empty = IsEmptyButEtcd(path, error);
  if (error) return FileError("list the run directory", path, error.value());
  if (empty) return false;
  return AlreadyExistsError(
      "the run directory ", path, " is not empty; give another with --run-dir, or ",
      fs::exists(path + "/config.yaml", error)
          ? absl::StrCat("continue its run with ", ShellLine({"--resume", path}))
          : "empty it");
}

void RemoveButEtcd(const std::string& path) {
  std::error_code ignored;
  const fs::path server = fs::path(path) / "server";
  for (const fs::path& folder : {server, fs::path(path)}) {
    std::vector<fs::path> found;
    for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end;
         at.increment(ignored)) {
      const bool of_etcd = folder == server && at->path().stem() == "etcd";
      if (at->path() != server && !of_etcd) found.push_back(at->path());
    }
    for (const fs::path& one : found) fs::remove_all(one, ignored);
  }
  fs::remove(server, ignored);  // stays with etcd's data in it
}

absl::Status CheckResumed(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return NotFoundError("no run to resume: ", path, " is not a directory; check its spelling");
  }
  if (fs::exists(path + "/config.yaml", error)) return absl::OkStatus();
  return NotFoundError("no run to resume: ", path, " has no config.yaml; is it a run directory?");
}

// Holds the directory until the result and all its copies are gone, or this process ends.
absl::StatusOr<std::shared_ptr<const void>> Hold(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return FileError("open the run directory", path, errno);
  std::shared_ptr<const void> hold(nullptr, [descriptor](const void*) { close(descriptor); });
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return hold;
  if (errno != EWOULDBLOCK) return FileError("lock the run directory", path, errno);
  return FailedPreconditionError(
      "the run in ", path, " still goes on in another ps-server; look at it with  ",
      ShellLine({"ps-ctl", "status", path}), "  or wait until it has ended");
}

}  // namespace

absl::StatusOr<RunDir> RunDir::Create(const RunDirOptions& options) {
  std::string path = options.path;
  bool is_new = false;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (options.resume) {
    PSGD_RETURN_IF_ERROR(CheckResumed(path));
  } else if (!path.empty()) {
    PSGD_ASSIGN_OR_RETURN(is_new, TakeGiven(path));
  } else {
    PSGD_ASSIGN_OR_RETURN(path, MakeDefault(options));
    is_new = true;
  }
  RunDir run(path);
  run.fresh_ = !options.resume;
  run.is_new_ = is_new;
  PSGD_ASSIGN_OR_RETURN(run.hold_, Hold(path));
  return run;
}

absl::StatusOr<RunDir> RunDir::Take(const std::string& path) {
  RunDir run(path);
  PSGD_ASSIGN_OR_RETURN(run.hold_, Hold(path));
  return run;
}

absl::Status RunDir::SaveConfig(const std::string& yaml) const {
  return WriteFileAtomically(ConfigFile(), yaml);
}

void RunDir::Abandon() {
  std::error_code ignored;
  if (fresh_ && is_new_) {
    fs::remove_all(path_, ignored);
  } else if (fresh_) {
    RemoveButEtcd(path_);
  }
}

}  // namespace psgd
