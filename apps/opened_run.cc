#include "apps/opened_run.h"

#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/files.h"
#include "experiment/config/config_yaml.h"
#include "net/address.h"
#include "net/resolve.h"

namespace psgd {
namespace {

constexpr Duration kResultsDeadline = std::chrono::seconds(10);
constexpr Duration kResultsPoll = std::chrono::milliseconds(50);

absl::StatusOr<std::unique_ptr<LivePages>> OpenPages(
    const ServerArguments& arguments, const RunDir& dir, const Config& config,
    std::shared_ptr<const Credentials> credentials) {
  PSGD_ASSIGN_OR_RETURN(const auto address, PagesAddress(arguments));
  if (!address) return nullptr;
  LivePagesOptions options;
  options.http = *address;
  options.credentials = std::move(credentials);
  options.names = {arguments.bind, arguments.advertise, address->host};
  std::erase(options.names, "");
  options.config = FormatConfig(config);
  options.run_dir = dir.path();
  return LivePages::Listen(std::move(options));
}

// Says in the directory of the results which server leads the run. ps-ctl verify, which does not
// ask the run's etcd, learns from it that nothing goes on from the journals there.
void NoteLeader(const OpenedRun& opened) {
  std::error_code ignored;
  if (opened.results.path() == opened.dir.path()) {
    std::filesystem::remove(opened.results.LeaderFile(), ignored);
    return;
  }
  if (!std::filesystem::exists(opened.results.ServerDir(), ignored)) return;  // of no server
  const std::filesystem::path own = std::filesystem::path(opened.dir.path());
  const bool inside =
      std::filesystem::equivalent(own.parent_path(), opened.results.path(), ignored);
  const absl::Status noted =
      WriteFileAtomically(opened.results.LeaderFile(), (inside ? own.filename() : own).string());
  if (!noted.ok()) {
    opened.log->warn("ps-ctl verify will look into journals that this server replaced: {}",
                     std::string(noted.message()));
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Credentials>> ServerCredentials(const TlsArguments& tls) {
  PSGD_ASSIGN_OR_RETURN(auto credentials, LoadTls(tls, "server"));
  if (credentials == nullptr || credentials->role == Role::kServer) return credentials;
  return InvalidArgumentError("the certificate is one of role ", RoleName(credentials->role),
                              ", not server (its OU); workers would not believe it");
}

absl::StatusOr<std::shared_ptr<FailpointPlan>> PlanFailpoint(const std::string& text) {
  if (text.empty()) return nullptr;
  PSGD_ASSIGN_OR_RETURN(const auto plan, ParseFailpoint(text));
  return std::make_shared<FailpointPlan>(plan.first, plan.second);
}

absl::Status CheckBind(const ServerArguments& arguments, absl::string_view option,
                       const std::string& host) {
  if (arguments.insecure || arguments.tls.given() || IsLoopback(host)) return absl::OkStatus();
  if (const auto known = Resolve(host, 0); !known.ok()) {
    return InvalidArgumentError(option, " ", host, ": ", known.status().message());
  }
  return InvalidArgumentError(option, " ", host,
                              " lets other machines connect, and nothing checks who they are; make "
                              "certificates (scripts/make-certs.sh DIR ",
                              host,
                              ") and add --tls-dir DIR here and to the "
                              "workers; or, on a network that you trust, add --insecure");
}

absl::StatusOr<std::optional<HttpServerOptions>> PagesAddress(const ServerArguments& arguments) {
  if (arguments.http == "off") return std::nullopt;
  HttpServerOptions options;
  const size_t colon = arguments.http.rfind(':');
  options.host = colon == std::string::npos ? arguments.bind
                                            : WithoutBrackets(arguments.http.substr(0, colon));
  const std::string port = arguments.http.substr(colon == std::string::npos ? 0 : colon + 1);
  const bool good =
      absl::SimpleAtoi(port, &options.port) && options.port >= 0 && options.port < 65536;
  if (!good || options.host.empty()) {
    return InvalidArgumentError(
        "--http ", arguments.http,
        " is not a port; write --http 7080, --http 127.0.0.1:7080, or --http off");
  }
  PSGD_RETURN_IF_ERROR(CheckBind(arguments, "--http", options.host));
  return options;
}

absl::StatusOr<OpenedRun> OpenRun(const ServerArguments& arguments, const RunDirOptions& options) {
  PSGD_ASSIGN_OR_RETURN(RunDir dir, RunDir::Create(options));
  std::error_code made;
  std::filesystem::create_directories(dir.ServerDir(), made);
  if (made) {
    return UnavailableError("cannot make ", dir.ServerDir(), ": ", made.message(),
                            "; is the disk full or read-only?");
  }
  LogOptions log_options;
  log_options.name = "server";
  log_options.file = dir.ServerDir() + "/server.log";
  log_options.to_stderr = !arguments.quiet;
  log_options.level = arguments.log_level;
  PSGD_ASSIGN_OR_RETURN(const Log log, MakeLog(log_options));
  return OpenedRun{dir, dir, log, nullptr, nullptr, std::make_unique<TraceFile>()};
}

absl::Status OpenResults(const ServerArguments& arguments, const Config& config,
                         std::shared_ptr<const Credentials> credentials, OpenedRun* opened) {
  if (!arguments.results.empty() && opened->results.path() == opened->dir.path()) {
    const Time start = SteadyNow();
    auto results = RunDir::Take(arguments.results);
    // Waits until the previous server is gone.
    while (!results.ok() && SteadyNow() - start < kResultsDeadline) {
      std::this_thread::sleep_for(kResultsPoll);
      results = RunDir::Take(arguments.results);
    }
    if (results.ok()) {
      opened->results = *results;
    } else if (arguments.join.empty()) {
      return Annotate(results.status(), "--results");
    } else {
      opened->log->warn("--results: {}; what the run leaves goes to {}",
                        std::string(results.status().message()), opened->dir.path());
    }
  }
  NoteLeader(*opened);
  auto pages = OpenPages(arguments, opened->results, config, credentials);
  // A server that takes over leads on without pages.
  if (!pages.ok() && arguments.join.empty()) return pages.status();
  if (pages.ok()) {
    opened->pages = *std::move(pages);
  } else {
    opened->log->warn("no dashboard: {}", std::string(pages.status().message()));
  }
  RunRecorder::Observer observer;
  if (LivePages* const pages = opened->pages.get()) {
    observer = [pages](const Record& record) { pages->Observe(record); };
  }
  const bool goes_on = !arguments.recover.empty() || !arguments.join.empty();
  const std::string yaml = FormatConfig(config);
  PSGD_ASSIGN_OR_RETURN(opened->recorder,
                        goes_on ? RunRecorder::GoOn(opened->results, yaml, opened->log, observer)
                                : RunRecorder::Open(opened->results, yaml, opened->log, observer));
  return absl::OkStatus();
}

}  // namespace psgd
