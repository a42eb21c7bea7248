#include "net/link_speed.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "net/resolve.h"

namespace psgd {
namespace {

constexpr size_t kLongestNumber = 32;
constexpr double kMegabit = 1e6 / 8;

}  // namespace

double LinkSpeedIn(const std::string& folder) {
  // Interfaces without a device, such as those of containers, tell 10 Gbit/s whatever they go over.
  std::error_code error;
  if (!std::filesystem::exists(folder + "/device", error) &&
      !std::filesystem::exists(folder + "/bonding", error))
    return 0;
  const auto text = ReadSmallFile(folder + "/speed", kLongestNumber);
  double megabits = 0;  // -1: not known
  if (!text.ok() || !absl::SimpleAtod(*text, &megabits)) return 0;
  return std::max(0.0, megabits) * kMegabit;
}

double LinkSpeedOf(const std::string& host) {
  const std::vector<std::string> wanted = InDigits(Resolve(host, 0));
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return 0;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress own;
    own.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(own.get(), at->ifa_addr, own.size);
    if (std::ranges::find(wanted, own.host()) != wanted.end())
      return LinkSpeedIn(absl::StrCat("/sys/class/net/", at->ifa_name));
  }
  return 0;
}

}  // namespace psgd
