#include "common/open_files.h"

#include <sys/resource.h>

#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

rlimit Limit() {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

rlim_t OpenFiles(const rlimit& limit) {
  // Where no file can be opened, the folder cannot be read, too: then all are open. Without /proc
  // the number is not known.
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  const bool full =
      error == std::errc::too_many_files_open || error == std::errc::too_many_files_open_in_system;
  if (error) return full ? limit.rlim_cur : 0;
  return static_cast<rlim_t>(std::distance(begin(open), end(open))) - 1;  // but for this folder
}

}  // namespace

void RaiseOpenFilesLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

bool CanOpenFiles(int count) {
  const rlimit limit = Limit();
  return OpenFiles(limit) + static_cast<rlim_t>(count) <= limit.rlim_cur;
}

std::string OpenFilesText() {
  const rlimit limit = Limit();
  return absl::StrCat(
      "this process has ", OpenFiles(limit), " files open and may have ", limit.rlim_cur,
      limit.rlim_cur < limit.rlim_max
          ? absl::StrCat(", and up to ", limit.rlim_max, " after ulimit -n ", limit.rlim_max)
          : " (ulimit -Hn, or LimitNOFILE of its systemd unit)");
}

}  // namespace psgd
