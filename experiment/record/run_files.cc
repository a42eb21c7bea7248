#include "experiment/record/run_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "common/files.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

bool HoldsAny(const fs::path& folder, std::initializer_list<const char*> names) {
  std::error_code error;
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return fs::exists(folder / name, error); });
}

class Finder {
 public:
  void Find(const fs::path& folder, int depth) {
    std::error_code error;
    // A run with two names is found once, and a cycle of links ends.
    if (!seen_.insert(fs::canonical(folder, error)).second) return;
    if (HoldsAny(folder, {"metrics.jsonl", "summary.json", "server/server.log"})) {
      found_.push_back(folder.string());
      return;
    }
    std::vector<fs::path> folders, links;
    bool may_be_one = false;
    for (const auto& entry :
         fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, error)) {
      const std::string name = entry.path().filename().string();
      may_be_one = may_be_one || name == "config.yaml" || name == "weights.safetensors" ||
                   name == "trace.json" || absl::StartsWith(name, "events.out.tfevents.");
      if (entry.is_directory(error))
        (entry.is_symlink(error) ? links : folders).push_back(entry.path());
    }
    // Folders that hold runs often hold a config or exported files too.
    const size_t before = found_.size();
    if (depth > 0) {
      for (const auto* kind : {&folders, &links}) {
        for (const fs::path& below : *kind) Find(below, depth - 1);
      }
    }
    if (may_be_one && found_.size() == before) found_.push_back(folder.string());
  }

  std::vector<std::string> Take() {
    std::sort(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  std::set<fs::path> seen_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> FindRunDirs(const std::string& root, int depth) {
  Finder finder;
  finder.Find(root, depth);
  return finder.Take();
}

absl::Status CheckRegularFile(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::status_known(status) || !fs::exists(status))
    return FileError("open", path, error.value());
  if (fs::is_regular_file(status)) return absl::OkStatus();
  return InvalidArgumentError(path, " is a ",
                              fs::is_directory(status) ? "folder" : "pipe, socket or device",
                              " where a run has a file; move it away");
}

}  // namespace psgd
