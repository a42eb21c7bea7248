#include "apps/server_arguments.h"

#include "apps/command_line.h"
#include "apps/exit_code.h"
#include "net/address.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-server --shards 4 --config configs/fashion_mnist.yaml
  ps-server --config configs/fashion_mnist.yaml --port 7070 --set cluster.workers=4
  ps-server --config my.yaml --http 7080                     # a dashboard at http://127.0.0.1:7080
  ps-server --config my.yaml --bind 10.0.0.1 --tls-dir certs # workers on other machines
  ps-server --resume runs/fashion-mnist-20260101-120000      # go on from its last checkpoint
  ps-server --recover runs/fashion-mnist-20260101-120000     # or where its journal ends
  ps-server --join 10.0.0.1:7070 --bind 10.0.0.2 --tls-dir certs # holds shards, and copies
  ps-server --config my.yaml --etcd 127.0.0.1:2379           # etcd settles which server leads
  ps-server --join my-run --etcd 127.0.0.1:2379              # may lead that run if its leader dies
)";

}  // namespace

std::optional<int> ParseServerArguments(int argc, char** argv, ServerArguments* parsed) {
  ServerArguments& arguments = *parsed;
  CLI::App app(std::string(kExamples) + "\nHolds the weights of one training run on its shards.",
               "ps-server");
  auto* config = app.add_option("--config", arguments.config, "YAML file that describes the run");
  auto* resume = app.add_option("--resume", arguments.resume, "Run directory to go on from");
  resume->excludes(config);
  app.add_option("--checkpoint", arguments.checkpoint,
                 "Of that run, by id or name; default: the newest that is sound")
      ->needs(resume);
  auto* recover =
      app.add_option(
             "--recover", arguments.recover,
             "Run directory whose server died; go on where its journal ends, at its addresses")
          ->excludes(config)
          ->excludes(resume);
  AddEtcdOption(app, arguments.etcd,
                "Members of etcd, where the run's servers settle who leads and say where that is");
  auto* join = app.add_option("--join", arguments.join,
                              "HOST:PORT of a server of a run, or with --etcd the name of a run: "
                              "holds shards, and copies of shards, of it. With its old --run-dir "
                              "it goes on with those that it held")
                   ->excludes(config)
                   ->excludes(resume)
                   ->excludes(recover);
  app.add_option(
         "--results", arguments.results,
         "With --join or --recover: the run directory that it goes on with once it leads, as "
         "one on a shared disk; default: its own")
      ->type_name("RUN_DIR")
      ->excludes(config)
      ->excludes(resume);
  app.add_option("--connect-deadline", arguments.connect_deadline,
                 "With --join: give up when no server answers for so long")
      ->capture_default_str()
      ->excludes(config)
      ->excludes(resume)
      ->excludes(recover);
  app.add_option("--set", arguments.set, "Change one key: --set train.epochs=2 (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--shards", arguments.shards,
                 "Threads that hold the weights, or auto: as many as the cores serve "
                 "(cluster.shards)")
      ->type_name("N");
  app.add_option("--workers", arguments.workers, "Workers to wait for (cluster.workers)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--run-dir", arguments.run_dir, "Where the run leaves its files")
      ->check(NotEmpty)
      ->excludes("--resume");
  app.add_option("--bind", arguments.bind, "Address or name of this machine to listen at")
      ->capture_default_str();
  app.add_option("--advertise", arguments.advertise, "Address workers are told to connect to");
  app.add_option("--port", arguments.port,
                 "Control port; 0 takes any free one, as --join does by default")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  app.add_option("--http", arguments.http,
                 "Port, or HOST:PORT, of the dashboard and /metrics; 0: any free one; off: none")
      ->capture_default_str();
  app.add_option("--trace", arguments.trace,
                 "Leave trace.json, for Perfetto: what workers and shards do in so many steps")
      ->type_name("STEPS")
      ->check(CLI::Range(1, 100000));
  AddTlsOptions(app, arguments.tls, "server");
  app.add_flag("--insecure", arguments.insecure, "Allow --bind to a public address, unprotected");
  app.add_flag("--beside-worker", arguments.beside_worker,
               "A worker runs on this machine, whose link the two share: shards are spread so that "
               "every link is as busy as the others; --join then listens by default at the address "
               "from which this machine reaches the run");
  app.add_option(
         "--link", arguments.link,
         "Speed of this machine's link, each way, as 10gbit: a server with a faster one holds "
         "more; default: as the system says (containers and virtual machines often do not know)")
      ->type_name("RATE");
  app.add_flag("--json", arguments.json, "Announce the addresses as one JSON line");
  app.add_flag("--quiet", arguments.quiet, "Log to the run directory only");
  app.add_option("--log-level", arguments.log_level, "trace, debug, info, warn, error")
      ->capture_default_str();
  app.add_flag("--die-with-parent", arguments.die_with_parent,
               "End when the process that started this one ends");
  app.add_option("--failpoint", arguments.failpoint,
                 "For tests: is killed at that moment, or the COUNTth of them "
                 "(server/durability/failpoint.h)")
      ->type_name("NAME[=COUNT]");
  // A recovered run keeps its config, directory and address.
  for (const char* other : {"--set", "--shards", "--workers", "--run-dir", "--beside-worker"})
    recover->excludes(other);
  for (const char* other : {"--set", "--shards", "--workers", "--trace"}) join->excludes(other);
  std::string follow;
  app.add_option("--follow", follow)->group("");  // an option of earlier versions
  if (const auto code = ParseCommandLine(app, argc, argv)) return code;
  if (!follow.empty()) {
    return Fail("ps-server",
                InvalidArgumentError("--follow is --join by now: --join ", follow,
                                     " holds copies of the run's shards (cluster.copies)"));
  }
  arguments.bind = WithoutBrackets(arguments.bind);
  arguments.advertise = WithoutBrackets(arguments.advertise);
  if (join->count() > 0 && app.count("--port") == 0) arguments.port = 0;
  if (arguments.beside_worker && join->count() > 0 && app.count("--bind") == 0) {
    if (arguments.etcd.given()) {
      return Fail("ps-server", absl::InvalidArgumentError(
                                   "--beside-worker with --etcd: say --bind too, the address of "
                                   "this machine that the others reach"));
    }
    const auto address = OwnAddressTowards(arguments.join);
    if (!address.ok()) return Fail("ps-server", address.status());
    arguments.bind = *address;
  }
  for (const char* place : {"--bind", "--advertise", "--port"}) {
    arguments.elsewhere = arguments.elsewhere || (recover->count() > 0 && app.count(place) > 0);
  }
  if (arguments.elsewhere && !arguments.etcd.given()) {
    return Fail("ps-server",
                absl::InvalidArgumentError("--recover goes on at the addresses that workers know: "
                                           "no --bind, --advertise or --port, "
                                           "unless they find it by --etcd"));
  }
  if (arguments.config.empty() && arguments.resume.empty() && arguments.recover.empty() &&
      arguments.join.empty()) {
    return Fail("ps-server",
                absl::InvalidArgumentError("no run given; say --config FILE, --resume RUN_DIR, "
                                           "--recover RUN_DIR or --join HOST:PORT"));
  }
  return std::nullopt;
}

}  // namespace psgd
