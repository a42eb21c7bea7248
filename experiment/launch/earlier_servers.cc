#include "experiment/launch/earlier_servers.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "experiment/record/run_dir.h"
#include "server/durability/server_record.h"

namespace psgd {

int LastServerDir(const std::string& run_dir) {
  constexpr absl::string_view kPrefix = "server-";
  int last = 1;
  std::error_code failed;
  std::filesystem::directory_iterator at(run_dir, failed), end;
  for (; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    int number = 0;
    if (absl::StartsWith(name, kPrefix) && absl::SimpleAtoi(name.substr(kPrefix.size()), &number))
      last = std::max(last, number);
  }
  return last;
}

std::vector<std::string> EarlierServers(const std::string& run_dir, const RunRecord& record) {
  std::vector<std::string> dirs;
  for (int number = 1; number <= LastServerDir(run_dir); ++number) {
    const bool first = number == 1;
    const std::string dir = first ? run_dir : absl::StrCat(run_dir, "/server-", number);
    const auto found = LoadServerRecord(RunDir(dir).ServerDir());
    if (!found.ok() || found->run_id() != record.run_id()) continue;
    for (const RunServer& server : record.servers()) {
      if (server.identity() != found->identity()) continue;
      if (server.server() == record.leader()) {
        dirs.insert(dirs.begin(), dir);
      } else if (!first) {  // else another server took over, and writes to that directory now
        dirs.push_back(dir);
      }
    }
  }
  return dirs;
}

}  // namespace psgd
