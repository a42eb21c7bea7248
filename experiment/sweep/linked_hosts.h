// Hosts on this machine whose links are as slow as asked for: network namespaces by
// scripts/netns.sh.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"

namespace psgd {

// Takes the hosts away when it goes. Not thread-safe.
class LinkedHosts {
 public:
  // `network` names them; others of that name, as a crash leaves them, go first. `rate` as tc has
  // it.
  static absl::StatusOr<std::unique_ptr<LinkedHosts>> Up(const std::string& network, int hosts,
                                                         const std::string& rate);
  ~LinkedHosts();
  LinkedHosts(const LinkedHosts&) = delete;
  LinkedHosts& operator=(const LinkedHosts&) = delete;

  // Words that start a program on a host, from 1.
  std::string Prefix(int host) const;
  static std::string Address(int host);

 private:
  LinkedHosts(std::string script, std::string network)
      : script_(std::move(script)), network_(std::move(network)) {}
  const std::string script_;
  const std::string network_;
};

// "unlimited", or such as 100mbit and 1gbit.
absl::Status CheckLink(const std::string& link);

}  // namespace psgd
