#include "data/folder_names.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

// Returns the names that `accept` accepts, sorted.
template <typename Accept>
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder, Accept accept) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!absl::StartsWith(name, ".") && accept(*it, name)) names.push_back(std::move(name));
  }
  if (error) {
    return NotFoundError(folder, ": ", error.message(), "; check data.path");
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ClassFolders(const std::string& folder) {
  PSGD_ASSIGN_OR_RETURN(std::vector<std::string> names,
                        NamesIn(folder, [](const fs::directory_entry& entry, const std::string&) {
                          std::error_code ignored;
                          return entry.is_directory(ignored);
                        }));
  if (names.empty()) {
    return NotFoundError(
        folder, ": has no folders, and there should be one for each class; check data.path");
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> FileNames(const std::string& folder,
                                                   const std::vector<absl::string_view>& endings) {
  return NamesIn(folder, [&](const fs::directory_entry& entry, const std::string& name) {
    std::error_code ignored;
    if (endings.empty()) return entry.is_regular_file(ignored);
    return std::ranges::any_of(
        endings, [&](absl::string_view ending) { return absl::EndsWithIgnoreCase(name, ending); });
  });
}

}  // namespace psgd
