// Hosts on this machine with links of a chosen speed: network namespaces made by scripts/netns.sh.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"

namespace psgd {

// The destructor removes the hosts. Not thread-safe.
class LinkedHosts {
 public:
  // `network` names the hosts; first removes hosts of that name, which a crash may leave. `rate` is
  // in the form of tc.
  static absl::StatusOr<std::unique_ptr<LinkedHosts>> Up(const std::string& network, int hosts,
                                                         const std::string& rate);
  ~LinkedHosts();
  LinkedHosts(const LinkedHosts&) = delete;
  LinkedHosts& operator=(const LinkedHosts&) = delete;

  // The words that start a program on a host; hosts count from 1.
  std::string Prefix(int host) const;
  static std::string Address(int host);

 private:
  LinkedHosts(std::string script, std::string network)
      : script_(std::move(script)), network_(std::move(network)) {}
  const std::string script_;
  const std::string network_;
};

// Accepts "unlimited", or a rate such as 100mbit and 1gbit.
absl::Status CheckLink(const std::string& link);

}  // namespace psgd
