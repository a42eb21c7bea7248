// What ps-server is told on its command line.
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
  int shards = 0;
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
  bool elsewhere = false;  // with recover: at bind and port, not where it was
  TlsArguments tls;
  bool json = false;
  bool quiet = false;
  bool die_with_parent = false;
  std::string log_level = "info";
  std::string failpoint;
};

// Nothing: go on. Otherwise what the program ends with, after saying why.
std::optional<int> ParseServerArguments(int argc, char** argv, ServerArguments* parsed);

}  // namespace psgd
