// Where a benchmark's listener waits for its own machine.
#pragma once

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/config.pb.h"

namespace psgd {

inline std::string LocalAddress(ClusterConfig::Transport transport) {
  const std::string tcp = "tcp://127.0.0.1:0";
  const std::string ipc = absl::StrCat("ipc://psgd-bench-", ::getpid());
  switch (transport) {
    case ClusterConfig::IPC:
      return ipc;
    case ClusterConfig::AUTO:
      return absl::StrCat(tcp, " ", ipc);
    default:
      return tcp;
  }
}

}  // namespace psgd
