#include "experiment/sweep/linked_hosts.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "experiment/launch/child_process.h"
#include "experiment/launch/program_dir.h"

namespace psgd {
namespace {

constexpr Duration kLinkPatience = std::chrono::seconds(30);

absl::Status RunScript(const std::string& script, const std::string& network,
                       const std::vector<std::string>& arguments) {
  ChildOptions child;
  child.name = "netns.sh";
  child.argv = {"/usr/bin/env", "PSGD_NETNS=" + network, script};
  child.argv.insert(child.argv.end(), arguments.begin(), arguments.end());
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> process,
                        ChildProcess::Start(std::move(child)));
  if (!process->WaitEnded(kLinkPatience))
    return absl::DeadlineExceededError("scripts/netns.sh does not end");
  if (process->exit_code() == 0) return absl::OkStatus();
  return FailedPreconditionError(
      "launch.link: scripts/netns.sh ", process->HowItEnded(), " (", process->StderrTail(),
      "); it needs root, iproute2 and CAP_NET_ADMIN: use sudo, or leave launch.link unlimited");
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkedHosts>> LinkedHosts::Up(const std::string& network, int hosts,
                                                             const std::string& rate) {
  PSGD_ASSIGN_OR_RETURN(const std::string script, ShippedFile("scripts/netns.sh"));
  PSGD_RETURN_IF_ERROR(RunScript(script, network, {"up", absl::StrCat(hosts), rate}));
  return std::unique_ptr<LinkedHosts>(new LinkedHosts(script, network));
}

LinkedHosts::~LinkedHosts() { (void)RunScript(script_, network_, {"down"}); }

std::string LinkedHosts::Prefix(int host) const {
  return absl::StrCat("ip netns exec ", network_, "-", host);
}

std::string LinkedHosts::Address(int host) { return absl::StrCat("10.77.0.", host); }

absl::Status CheckLink(const std::string& link) {
  if (link == "unlimited") return absl::OkStatus();
  size_t digits = 0;
  while (digits < link.size() && absl::ascii_isdigit(static_cast<unsigned char>(link[digits])))
    ++digits;
  const std::string unit = link.substr(digits);
  if (digits > 0 && (unit == "kbit" || unit == "mbit" || unit == "gbit")) return absl::OkStatus();
  return InvalidArgumentError("launch.link: \"", link,
                              "\" is no rate; write 100mbit, 1gbit or unlimited");
}

}  // namespace psgd
