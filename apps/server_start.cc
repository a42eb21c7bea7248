#include "apps/server_start.h"

#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/available_memory.h"
#include "common/files.h"
#include "common/random_id.h"
#include "common/shell_line.h"
#include "common/units.h"
#include "engine/onnx/import.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/run_config.h"
#include "experiment/record/run_dir.h"
#include "net/address.h"
#include "net/link_speed.h"
#include "net/memory_run_store.h"
#include "proto/has_journal.h"
#include "proto/measure_of.h"
#include "server/control/peer_client.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/journal_folder.h"
#include "server/durability/rocks_run_store.h"
#include "server/durability/server_record.h"

namespace psgd {
namespace {

using Arguments = ServerArguments;

constexpr int kLongestHostName = 64;
constexpr Duration kAskPatience = std::chrono::seconds(1);
constexpr Duration kAskRetry = std::chrono::milliseconds(100);

// The directory of the run to continue; empty: a new run.
const std::string& EarlierRun(const Arguments& arguments) {
  return arguments.recover.empty() ? arguments.resume : arguments.recover;
}

// This machine's name, with unusual characters replaced.
std::string NameOfThisServer() {
  char name[kLongestHostName + 1] = {};
  if (gethostname(name, kLongestHostName) != 0) return "server";
  std::string readable;
  for (const char* c = name; *c != 0; ++c) {
    readable.push_back(absl::ascii_isalnum(static_cast<unsigned char>(*c)) || *c == '.' ? *c : '-');
  }
  return readable.empty() ? "server" : readable;
}

// `notes`: as of ReadRunConfig.
absl::StatusOr<Config> ReadConfig(const Arguments& arguments,
                                  std::vector<std::string>* notes = nullptr) {
  return ReadRunConfig({.config = arguments.config,
                        .resume = EarlierRun(arguments),
                        .checkpoint = {},
                        .set = arguments.set,
                        .shards = arguments.shards,
                        .workers = arguments.workers,
                        .run_dir = {}},
                       notes);
}

absl::StatusOr<LoadedCheckpoint> LoadChosen(const CheckpointStore& store,
                                            const std::string& chosen) {
  if (chosen.empty()) return store.LoadNewest();
  PSGD_ASSIGN_OR_RETURN(const uint64_t id, store.Find(chosen));
  return store.Load(id);
}

// Prepares the run to go on from the chosen checkpoint.
absl::Status Resume(const Arguments& arguments, ServerStart* start) {
  CoordinatorOptions* const coordinator = &start->loop.core.leader.coordinator;
  const CheckpointStore store(RunDir(arguments.resume).ServerDir());
  PSGD_ASSIGN_OR_RETURN(LoadedCheckpoint loaded, LoadChosen(store, arguments.checkpoint));
  start->notes = loaded.notes();
  for (const std::string& note : start->notes) start->opened.log->warn("{}", note);
  if (!start->notes.empty()) {
    start->notes.push_back(absl::StrCat("goes on from checkpoint ", loaded.manifest().id()));
  }
  // Later checkpoints stay, so new ids begin above them.
  if (!arguments.checkpoint.empty()) {
    PSGD_ASSIGN_OR_RETURN(coordinator->last_checkpoint, store.LastId());
  }
  PSGD_RETURN_IF_ERROR(CheckGoesOn(loaded.manifest(), start->config));
  coordinator->checkpoint = std::make_shared<LoadedCheckpoint>(std::move(loaded));
  const CheckpointManifest& manifest = coordinator->checkpoint->manifest();
  CoordinatorSnapshot& snapshot = coordinator->resume.emplace(SnapshotOf(manifest));
  PSGD_ASSIGN_OR_RETURN(const std::optional<EvalResult> own, store.EvaluationOf(manifest.id()));
  if (own && EvaluationAt(own->epoch(), snapshot.evaluations) == nullptr) {
    snapshot.evaluations.push_back(*own);
  }
  return absl::OkStatus();
}

// The record of a server that begins a run or joins it for the first time.
ServerRecord NewRecord(const Arguments& arguments, int port) {
  ServerRecord record;
  record.set_identity(RandomId());
  record.set_host(arguments.bind);
  record.set_advertise(arguments.advertise);
  record.set_beside_worker(arguments.beside_worker);
  record.set_control_port(port);
  return record;
}

void WarnOfCertificate(const Credentials* credentials, const std::string& reached, const Log& log) {
  if (credentials == nullptr || reached == "0.0.0.0" || CredentialsAreFor(*credentials, reached))
    return;
  log->warn(
      "the certificate is not for {}: workers have to use a name that it is for as --server "
      "(scripts/make-certs.sh --renew server DIR {} makes one that is)",
      reached, reached);
}

absl::StatusOr<double> ParseLink(const std::string& text) {
  auto link = ParseRate(text);
  if (link.ok() && *link > 0 && std::isfinite(*link)) return link;
  return InvalidArgumentError(
      "--link: expected the speed of a link, such as 100mbit or 10gbit, got \"", text, "\"");
}

// Bytes a second; 0: not known.
double LinkOf(const ServerRecord& record) {
  if (record.link() > 0) return record.link();
  return LinkSpeedOf(record.host() == "0.0.0.0" ? ReachedAs(record) : record.host());
}

// Fills in all options that do not depend on the way of starting.
absl::Status FillLoop(const Arguments& arguments, ServerRecord record, ServerStart* start) {
  const Config& config = start->config;
  ServerLoopOptions& loop = start->loop;
  const std::string& reached = ReachedAs(record);
  WarnOfCertificate(start->credentials.get(), reached, start->opened.log);
  loop.core.self.set_address(HostPort(reached, start->service->port()));
  loop.core.leader.coordinator.config = config;
  // Assumes that other servers have as much memory as this one.
  loop.core.leader.coordinator.memory =
      AvailableMemory() * static_cast<uint64_t>(config.cluster().servers());
  // Above the incarnations of an earlier server of this run, whose workers may still live.
  loop.core.leader.coordinator.first_incarnation = static_cast<uint32_t>(std::time(nullptr));
  loop.core.leader.copies = static_cast<size_t>(config.cluster().copies());
  loop.core.leader.servers = static_cast<size_t>(config.cluster().servers());
  loop.core.leader.patience = Milliseconds(config.durability().takeover());
  loop.copies.config = config;
  loop.copies.host = record.host();
  loop.copies.advertise = record.advertise();
  loop.copies.journal_dir = start->opened.dir.ServerDir();
  loop.copies.credentials = start->credentials;
  loop.copies.log = start->opened.log;
  loop.copies.failpoint = loop.failpoint;
  if (!arguments.link.empty()) {
    PSGD_ASSIGN_OR_RETURN(const double link, ParseLink(arguments.link));
    record.set_link(link);
  }
  loop.link = LinkOf(record);
  loop.record = std::move(record);
  loop.name = NameOfThisServer();
  const std::string& results =
      arguments.results.empty() ? start->opened.dir.path() : arguments.results;
  loop.run_dir = results;
  loop.checkpoint_dir = RunDir(results).ServerDir();
  if (loop.trace_steps == 0) loop.trace_steps = arguments.trace;
  loop.log = start->opened.log;
  return MakeJournalFolder(loop.copies.journal_dir, loop.log);
}

absl::StatusOr<std::shared_ptr<RunStore>> EtcdStore(
    const Arguments& arguments, const std::string& run, const Config& config,
    std::shared_ptr<const Credentials> credentials) {
  PSGD_RETURN_IF_ERROR(CheckSettles(config));
  EtcdArguments etcd = arguments.etcd;
  etcd.run = run;
  PSGD_ASSIGN_OR_RETURN(auto store, OpenEtcd(etcd, std::move(credentials),
                                             Milliseconds(config.durability().takeover())));
  return store;
}

absl::StatusOr<std::shared_ptr<RunStore>> NewStore(const Arguments& arguments,
                                                   const ServerStart& start) {
  if (arguments.etcd.given()) {
    return EtcdStore(arguments, start.config.name(), start.config, start.credentials);
  }
  if (!HasJournal(start.config)) return std::make_shared<MemoryRunStore>();
  PSGD_ASSIGN_OR_RETURN(
      std::shared_ptr<RunStore> store,
      RocksRunStore::Create(JournalFolder(start.opened.dir.ServerDir(), "coordinator"),
                            start.config.durability().acknowledge() == DurabilityConfig::FSYNC));
  return store;
}

// Removes the journal of a resumed run, because the checkpoint has all that counts.
// A server that dies meanwhile leaves the whole journal or none.
absl::Status ForgetJournal(const std::string& server_dir) {
  return DiscardFolder(server_dir + "/journal");
}

absl::Status BeginRun(const Arguments& arguments, ServerStart* start) {
  PSGD_RETURN_IF_ERROR(OpenResults(arguments, start->config, start->credentials, &start->opened));
  CoordinatorOptions& coordinator = start->loop.core.leader.coordinator;
  if (coordinator.resume) {
    start->opened.recorder->Resumed(coordinator.resume->checkpoint,
                                    coordinator.checkpoint->manifest().epoch_progress());
  }
  if (start->config.model().has_onnx() && arguments.resume.empty()) {
    PSGD_ASSIGN_OR_RETURN(GivenWeights given, ReadOnnxWeights(start->config.model().onnx()));
    coordinator.given = std::make_shared<const GivenWeights>(std::move(given));
  }
  PSGD_ASSIGN_OR_RETURN(start->service, ControlService::Start(arguments.bind, arguments.port,
                                                              start->credentials.get()));
  PSGD_RETURN_IF_ERROR(start->opened.dir.SaveConfig(FormatConfig(start->config)));
  PSGD_RETURN_IF_ERROR(ForgetJournal(start->opened.dir.ServerDir()));
  ServerRecord record = NewRecord(arguments, start->service->port());
  record.set_run_id(absl::StrCat(absl::Hex(RandomId(), absl::kZeroPad16)));
  record.set_keeps_run(!arguments.etcd.given());
  if (start->credentials != nullptr) {
    const CurveKeys curve = MakeCurveKeys();
    record.set_curve_public(curve.public_key);
    record.set_curve_secret(curve.secret_key);
  }
  PSGD_RETURN_IF_ERROR(FillLoop(arguments, std::move(record), start));
  start->loop.core.begins = true;
  PSGD_ASSIGN_OR_RETURN(start->loop.store, NewStore(arguments, *start));
  return absl::OkStatus();
}

// Before the resumed run's journals are removed: with a run that etcd holds, they go on.
absl::Status CheckEtcdFree(const Arguments& arguments, const ServerStart& start) {
  PSGD_ASSIGN_OR_RETURN(const auto store,
                        EtcdStore(arguments, start.config.name(), start.config, start.credentials));
  PSGD_ASSIGN_OR_RETURN(const RunStore::Held held, store->Read());
  if (held.revision == 0) return absl::OkStatus();
  return AlreadyExistsError(
      "the run store has a run of that name. If it is this one, it goes on where its journals end: "
      " ",
      ShellLine({"ps-server", "--recover", arguments.resume}), " --etcd ", arguments.etcd.members,
      "  and its other servers:  ps-server --join ", start.config.name(), " --run-dir DIR --etcd ",
      arguments.etcd.members, "  To give those up:  etcdctl del --prefix /psgd/",
      start.config.name(), "/  and the same again");
}

absl::StatusOr<ServerStart> NewRun(const Arguments& arguments, ServerStart start) {
  std::vector<std::string> config_notes;
  PSGD_ASSIGN_OR_RETURN(start.config, ReadConfig(arguments, &config_notes));
  if (arguments.etcd.given()) {
    PSGD_RETURN_IF_ERROR(
        EtcdStore(arguments, start.config.name(), start.config, start.credentials).status());
  }
  RunDirOptions dir;
  dir.resume = !arguments.resume.empty();
  dir.path = dir.resume ? arguments.resume : arguments.run_dir;
  dir.name = start.config.name();
  dir.now = std::time(nullptr);
  if (dir.resume && arguments.checkpoint.empty()) {
    PSGD_RETURN_IF_ERROR(CheckUnfinished(dir.path, start.config));
  }
  PSGD_ASSIGN_OR_RETURN(start.opened, OpenRun(arguments, dir));
  // Not in start.notes: ps-run, which shows those, reads the config and shows its notes itself.
  for (const std::string& note : config_notes) start.opened.log->warn("{}", note);
  // Before any file of the run is written, so that a run that cannot be resumed stays unchanged.
  if (dir.resume) {
    PSGD_RETURN_IF_ERROR(Resume(arguments, &start));
    if (arguments.etcd.given() && HasJournal(start.config))
      PSGD_RETURN_IF_ERROR(CheckEtcdFree(arguments, start));
  }
  if (const absl::Status begun = BeginRun(arguments, &start); !begun.ok()) {
    start.opened.dir.Abandon();  // otherwise the directory would block the next attempt
    return begun;
  }
  return start;
}

// Opens the store of a server that keeps the run's record in its directory.
absl::StatusOr<std::shared_ptr<RunStore>> EarlierStore(const std::string& server_dir,
                                                       const Config& config) {
  if (CoordinatorIsMissing(server_dir)) return NoCoordinator(0, server_dir);
  PSGD_ASSIGN_OR_RETURN(
      std::shared_ptr<RunStore> store,
      RocksRunStore::Open(JournalFolder(server_dir, "coordinator"),
                          config.durability().acknowledge() == DurabilityConfig::FSYNC));
  PSGD_ASSIGN_OR_RETURN(const RunStore::Held held, store->Read());
  if (!held.record.has_plan()) return NoCoordinator(held.revision, server_dir);
  return store;
}

absl::Status CheckSecured(const ServerRecord& record, const Credentials* credentials) {
  if ((credentials != nullptr) == !record.curve_public().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      record.curve_public().empty()
          ? "this run is not secured: recover it without certificates"
          : "this run is secured: recover it with the same certificates (--tls-dir)");
}

absl::StatusOr<ServerStart> RecoveredRun(const Arguments& arguments, ServerStart start) {
  PSGD_ASSIGN_OR_RETURN(start.config, ReadConfig(arguments));
  if (!HasJournal(start.config)) {
    return absl::FailedPreconditionError(
        "this run kept no journal (durability.acknowledge: memory); go on from its last checkpoint "
        "with --resume");
  }
  PSGD_RETURN_IF_ERROR(CheckUnfinished(arguments.recover, start.config));
  RunDirOptions dir;
  dir.resume = true;
  dir.path = arguments.recover;
  PSGD_ASSIGN_OR_RETURN(start.opened, OpenRun(arguments, dir));
  const std::string server_dir = start.opened.dir.ServerDir();
  if (FileExists(JournalFolder(server_dir, ""))) {
    PSGD_RETURN_IF_ERROR(CloseJournalFolder(server_dir, start.opened.log));
  }
  if (arguments.etcd.given()) {
    PSGD_ASSIGN_OR_RETURN(start.loop.store, EtcdStore(arguments, start.config.name(), start.config,
                                                      start.credentials));
  } else {
    PSGD_ASSIGN_OR_RETURN(start.loop.store, EarlierStore(server_dir, start.config));
  }
  PSGD_ASSIGN_OR_RETURN(ServerRecord record, LoadServerRecord(server_dir));
  PSGD_RETURN_IF_ERROR(CheckSecured(record, start.credentials.get()));
  if (arguments.elsewhere) {
    record.set_host(arguments.bind);
    record.set_advertise(arguments.advertise);
    record.set_control_port(arguments.port);
  }
  PSGD_ASSIGN_OR_RETURN(start.service, ControlService::Start(record.host(), record.control_port(),
                                                             start.credentials.get()));
  record.set_control_port(start.service->port());
  start.loop.core.was_part = true;
  PSGD_RETURN_IF_ERROR(FillLoop(arguments, std::move(record), &start));
  PSGD_RETURN_IF_ERROR(OpenResults(arguments, start.config, start.credentials, &start.opened));
  return start;
}

// --- A further server of a run

// The addresses of the run's servers.
absl::StatusOr<std::vector<std::string>> ServersOfRun(const Arguments& arguments, RunStore* store) {
  if (store == nullptr) return std::vector<std::string>{arguments.join};
  return ServersOf(*store, arguments.join);
}

// Gets the run's description from any of its servers.
absl::StatusOr<LeaderSays::Begin> FetchRun(const Arguments& arguments, RunStore* store,
                                           const Credentials* credentials,
                                           const StopSignals& stops) {
  PSGD_ASSIGN_OR_RETURN(const int64_t deadline, ParseMilliseconds(arguments.connect_deadline));
  const Time start = SteadyNow();
  absl::Status why;
  do {
    const auto servers = ServersOfRun(arguments, store);
    why = servers.status();
    for (const std::string& server : servers.ok() ? *servers : std::vector<std::string>()) {
      auto begin = AskForRun(server, credentials, NameOfThisServer(), kAskPatience);
      if (begin.ok()) return begin;
      why = begin.status();
      if (!absl::IsUnavailable(why)) return why;
    }
    if (stops.count() > 0) return absl::CancelledError("stopped before it had joined the run");
    std::this_thread::sleep_for(kAskRetry);
  } while (SteadyNow() - start < Milliseconds(deadline));
  return UnavailableError(
      "no server of the run answers at ", arguments.join, " (tried for ",
      arguments.connect_deadline, ": ", std::string(why.message()),
      "); is ps-server running there, is the port right, and does a firewall let it through? ",
      credentials != nullptr ? "Does it know these certificates (is its ca.crt the same)?"
                             : "Does it ask for certificates (--tls-dir)?");
}

// The record of the server in --run-dir. Nothing: the directory is empty, or its run has no
// journal.
absl::StatusOr<std::optional<ServerRecord>> EarlierServer(const Arguments& arguments) {
  const RunDir dir(arguments.run_dir);
  if (arguments.run_dir.empty() || !FileExists(dir.ConfigFile())) return std::nullopt;
  PSGD_ASSIGN_OR_RETURN(const RunDir held, RunDir::Take(arguments.run_dir));
  auto record = LoadServerRecord(held.ServerDir());
  if (record.ok()) return *std::move(record);
  if (!absl::IsNotFound(record.status())) return record.status();
  PSGD_ASSIGN_OR_RETURN(const auto checkpoints, FolderIds(held.ServerDir(), "checkpoint"));
  const char* what = FileExists(JournalFolder(held.ServerDir(), "")) ? "the journal of a run"
                     : !checkpoints.empty()                          ? "a run's checkpoints"
                     : FileExists(held.SummaryFile())                ? "the results of a run"
                                                                     : nullptr;
  if (what == nullptr) return std::nullopt;
  return FailedPreconditionError(
      arguments.run_dir, " holds ", what,
      ", which would be written over: take an empty directory as --run-dir, or the "
      "one that this server had");
}

absl::StatusOr<ServerStart> JoinedRun(const Arguments& arguments, const StopSignals& stops,
                                      ServerStart start) {
  std::shared_ptr<RunStore> asked;
  if (arguments.etcd.given()) {
    PSGD_RETURN_IF_ERROR(Annotate(CheckRunName(arguments.join), "--join with --etcd"));
    EtcdArguments etcd = arguments.etcd;
    etcd.run = arguments.join;
    PSGD_ASSIGN_OR_RETURN(asked, OpenEtcd(etcd, start.credentials));
  } else {
    PSGD_RETURN_IF_ERROR(Annotate(ParseAddress(absl::StrCat("tcp://", arguments.join)).status(),
                                  "--join takes HOST:PORT"));
  }
  PSGD_ASSIGN_OR_RETURN(std::optional<ServerRecord> earlier, EarlierServer(arguments));
  PSGD_ASSIGN_OR_RETURN(start.service, ControlService::Start(arguments.bind, arguments.port,
                                                             start.credentials.get()));
  ServerRecord record = NewRecord(arguments, start.service->port());
  if (earlier) {
    record.set_identity(earlier->identity());
    record.set_run_id(earlier->run_id());
    start.loop.core.was_part = true;
    record.set_curve_public(earlier->curve_public());
    record.set_curve_secret(earlier->curve_secret());
    PSGD_RETURN_IF_ERROR(CheckSecured(record, start.credentials.get()));
    PSGD_ASSIGN_OR_RETURN(start.config, LoadConfig(RunDir(arguments.run_dir).ConfigFile()));
  } else {
    PSGD_ASSIGN_OR_RETURN(const LeaderSays::Begin run,
                          FetchRun(arguments, asked.get(), start.credentials.get(), stops));
    start.config = run.config();
    start.loop.trace_steps = run.trace_steps();
    record.set_run_id(run.run_id());
    record.set_curve_public(run.curve_public());
    record.set_curve_secret(run.curve_secret());
  }
  if (asked != nullptr) {
    PSGD_ASSIGN_OR_RETURN(start.loop.store,
                          EtcdStore(arguments, arguments.join, start.config, start.credentials));
    if (const auto servers = ServersOf(*asked, arguments.join); servers.ok())
      start.loop.leader = servers->front();
  } else {
    start.loop.leader = arguments.join;
  }

  RunDirOptions dir;
  dir.path = arguments.run_dir;
  dir.resume = !arguments.run_dir.empty() && FileExists(RunDir(arguments.run_dir).ConfigFile());
  dir.name = absl::StrCat(start.config.name(), "-server-", start.service->port());
  dir.now = std::time(nullptr);
  PSGD_ASSIGN_OR_RETURN(start.opened, OpenRun(arguments, dir));
  PSGD_RETURN_IF_ERROR(start.opened.dir.SaveConfig(FormatConfig(start.config)));
  // Its journals count again, whichever server took over from it before.
  std::error_code ignored;
  std::filesystem::remove(start.opened.dir.LeaderFile(), ignored);
  PSGD_RETURN_IF_ERROR(FillLoop(arguments, std::move(record), &start));
  return start;
}

}  // namespace

absl::StatusOr<ServerStart> StartServer(const ServerArguments& arguments,
                                        const StopSignals& stops) {
  PSGD_RETURN_IF_ERROR(CheckBind(arguments, "--bind", arguments.bind));
  if (!arguments.advertise.empty()) {
    PSGD_RETURN_IF_ERROR(
        Annotate(ParseAddress(absl::StrCat("tcp://", HostPort(arguments.advertise, 1))).status(),
                 "--advertise takes a host without a port"));
  }
  // Checked here, because no way of starting should leave files behind if these are wrong.
  ServerStart start;
  PSGD_ASSIGN_OR_RETURN(start.credentials, ServerCredentials(arguments.tls));
  PSGD_RETURN_IF_ERROR(PagesAddress(arguments).status());
  PSGD_ASSIGN_OR_RETURN(start.loop.failpoint, PlanFailpoint(arguments.failpoint));
  if (!arguments.join.empty()) return JoinedRun(arguments, stops, std::move(start));
  if (!arguments.recover.empty()) return RecoveredRun(arguments, std::move(start));
  return NewRun(arguments, std::move(start));
}

}  // namespace psgd
