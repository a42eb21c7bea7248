// The command line of ps-server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/etcd_arguments.h"
#include "apps/tls_arguments.h"

namespace psgd {

struct ServerArguments {
  std::string config;
  std::vector<std::string> set;
  std::string shards;
  int workers = 0;
  std::string run_dir;
  std::string resume;
  std::string recover;
  std::string checkpoint;
  EtcdArguments etcd;
  std::string join;
  std::string results;
  std::string connect_deadline = "60s";
  std::string bind = "127.0.0.1";
  std::string advertise;
  int port = 7070;
  std::string http = "off";
  uint64_t trace = 0;
  bool insecure = false;
  bool beside_worker = false;
  std::string link;        // empty: what the system says of the interface
  bool elsewhere = false;  // with `recover`: listens at `bind` and `port`, not at the old address
  TlsArguments tls;
  bool json = false;
  bool quiet = false;
  bool die_with_parent = false;
  std::string log_level = "info";
  std::string failpoint;
};

// Returns nothing if the program should go on. Otherwise help or an error was shown, and main
// returns this exit code.
std::optional<int> ParseServerArguments(int argc, char** argv, ServerArguments* parsed);

}  // namespace psgd
