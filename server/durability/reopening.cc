#include "server/durability/reopening.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/files.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

std::set<std::string> NamesIn(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.insert(at->path().filename().string());
  return names;
}

// Removes files that are not in `before` and hold nothing: empty logs, and manifests that are not
// the current one.
void RemoveNewFiles(const std::string& folder, const std::set<std::string>& before) {
  const auto current = ReadSmallFile(folder + "/CURRENT", 256);
  if (!current.ok()) return;
  const absl::string_view manifest = absl::StripSuffix(*current, "\n");
  for (const std::string& name : NamesIn(folder)) {
    if (before.contains(name) || name == manifest) continue;
    const std::string path = folder + "/" + name;
    std::error_code error;
    const bool empty = fs::file_size(path, error) == 0;
    if (!error && (empty || absl::StartsWith(name, "MANIFEST-"))) fs::remove(path, error);
  }
}

}  // namespace

void Reopening::Failed(const absl::Status& why, Time now) {
  why_ = why;
  // On an almost full disk small writes succeed between failed ones, which must not shorten the
  // pause.
  const bool anew = now >= next_ + kLongestPause;
  pause_ = anew ? kFirstPause : std::min(2 * pause_, kLongestPause);
  next_ = now + pause_;
}

absl::Status Reopening::Try(const std::function<absl::Status()>& open) {
  if (SteadyNow() < next_) return why_;
  const std::set<std::string> before = NamesIn(folder_);
  absl::Status opened = open();
  if (opened.ok()) return opened;
  RemoveNewFiles(folder_, before);
  Failed(opened, SteadyNow());
  return opened;
}

}  // namespace psgd
