#include "common/open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/file_descriptor.h"

namespace psgd {

void RaiseOpenFilesLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

bool CanOpenFiles(int count) {
  std::vector<FileDescriptor> opened;
  while (static_cast<int>(opened.size()) < count) {
    opened.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!opened.back().open()) return errno != EMFILE && errno != ENFILE;
  }
  return true;
}

std::string OpenFilesText() {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  // Where no file can be opened, the folder cannot be read, too: then all are open.
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  const auto count = error ? static_cast<rlim_t>(limit.rlim_cur)
                           : static_cast<rlim_t>(std::distance(begin(open), end(open)));
  return absl::StrCat(
      "this process has ", count, " files open and may have ", limit.rlim_cur,
      limit.rlim_cur < limit.rlim_max
          ? absl::StrCat(", and up to ", limit.rlim_max, " after ulimit -n ", limit.rlim_max)
          : " (ulimit -Hn, or LimitNOFILE of its systemd unit)");
}

}  // namespace psgd
