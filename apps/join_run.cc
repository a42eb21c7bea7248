#include "apps/join_run.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "apps/opened_run.h"
#include "common/units.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/run_dir.h"
#include "net/address.h"
#include "server/control/shard_host.h"

namespace psgd {
namespace {

constexpr int kLongestHostName = 64;

// Of this machine, as far as it is one that may be shown.
std::string NameOfThisServer() {
  char name[kLongestHostName + 1] = {};
  if (gethostname(name, kLongestHostName) != 0) return "server";
  std::string readable;
  for (const char* c = name; *c != 0; ++c) {
    readable.push_back(absl::ascii_isalnum(static_cast<unsigned char>(*c)) || *c == '.' ? *c : '-');
  }
  return readable.empty() ? "server" : readable;
}

}  // namespace

absl::StatusOr<ExitCode> JoinRun(const ServerArguments& arguments, const StopSignals& stops) {
  ShardHostOptions options;
  PSGD_ASSIGN_OR_RETURN(options.credentials, ServerCredentials(arguments.tls));
  if (arguments.etcd.given()) {
    EtcdArguments etcd = arguments.etcd;
    etcd.run = arguments.join;
    PSGD_ASSIGN_OR_RETURN(const auto chains, OpenEtcd(etcd, options.credentials));
    options.coordinator = absl::StrCat("run ", etcd.run);
    options.find_coordinator = [chains]() -> absl::StatusOr<std::string> {
      const auto servers = ServersOf(*chains, chains->run());
      if (!servers.ok())
        return absl::UnavailableError(servers.status().message());  // it may come yet
      return servers->front();
    };
  } else {
    PSGD_RETURN_IF_ERROR(Annotate(ParseAddress(absl::StrCat("tcp://", arguments.join)).status(),
                                  "--join takes HOST:PORT"));
    options.coordinator = arguments.join;
  }
  options.host = arguments.bind;
  options.advertise = arguments.advertise;
  options.name = NameOfThisServer();
  PSGD_ASSIGN_OR_RETURN(const EarlierServer earlier,
                        TakeUpRunDir(arguments.run_dir, EarlierServer::Kind::kHost));
  if (!arguments.run_dir.empty()) options.earlier_dir = RunDir(arguments.run_dir).ServerDir();
  PSGD_ASSIGN_OR_RETURN(options.failpoint, PlanFailpoint(arguments.failpoint));
  PSGD_ASSIGN_OR_RETURN(const int64_t deadline, ParseMilliseconds(arguments.connect_deadline));
  options.connect_deadline = Milliseconds(deadline);
  options.stops = [&stops] { return stops.count().load(); };
  PSGD_ASSIGN_OR_RETURN(const auto host, ShardHost::Connect(std::move(options)));

  RunDirOptions dir;
  dir.path = arguments.run_dir;
  dir.resume =
      !arguments.run_dir.empty() && std::filesystem::exists(RunDir(arguments.run_dir).ConfigFile());
  dir.name = absl::StrCat(host->config().name(), "-server-", host->server());
  dir.now = std::time(nullptr);
  PSGD_ASSIGN_OR_RETURN(OpenedRun opened, OpenRun(arguments, dir));
  PSGD_RETURN_IF_ERROR(opened.dir.SaveConfig(FormatConfig(host->config())));
  if (arguments.json) {
    std::cout << nlohmann::ordered_json{{"event", "joined"},
                                        {"server", host->server()},
                                        {"run_dir", opened.dir.path()}}
              << std::endl;
  } else {
    std::cout << "joined: as server " << host->server() << " of the run at " << arguments.join
              << "\nrun directory: " << opened.dir.path() << std::endl;
  }
  const absl::Status served = host->Serve(opened.dir.ServerDir(), opened.log);
  if (absl::IsCancelled(served)) {
    opened.log->info("{}", std::string(served.message()));
    return kExitInterrupted;
  }
  PSGD_RETURN_IF_ERROR(served);
  opened.log->info("the run is over; its coordinator has the results");
  return kExitOk;
}

}  // namespace psgd
