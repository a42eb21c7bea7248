// Kills processes of a run at random, again and again, and then audits the journals.
//
//   kill_soak --kills=1000 --seed=7 [--copies=2] [--acknowledge=fsync] [--transport=ucx]
//             [--folder=DIR]
//             [--undisturbed=SECONDS] [--every=SECONDS] [--pairs] [--set=KEY=VALUE]...
//
// A ps-server with a journal and three ps-workers train. One process is killed (SIGKILL), the
// server as often as a worker, and started again. The next kill comes once training has gone on,
// and, with --every, so long after the last kill. With --pairs a server and a worker are killed
// together. --set changes a key of the config, as local.steps. The report has the test loss after
// each epoch, before the first kill and from then on. --kills=0 --undisturbed=600 makes the curve
// to compare with.
// With --copies=2: three servers and an etcd of three members; one of ten killed servers loses its
// disk. A copy that starts anew begins with an image. So the journals of dead servers and of
// dropped copies are kept. If the last copies do not reach back to the first step, the audit takes
// the earlier steps from kept journals that overlap. No journal is trimmed. The audit checks:
//   - every acknowledged push is there, with the bytes that the worker sent;
//   - no push is there twice, and each worker's pushes have no gap;
//   - a replay makes the weights that the server saved, bit for bit, for all copies in sync.
// With --copies=2 it also checks that 99 of 100 deaths of a server hold training up for no longer
// than durability.takeover and a second, if at least 100 deaths count. Deaths without a copy in
// sync, or with a worker, do not count.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/clock.h"
#include "common/philox.h"
#include "data/safetensors.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/run_dir.h"
#include "server/durability/durable_shard.h"
#include "server/durability/rocks_journal.h"
#include "tests/soak/journal_keeper.h"
#include "tests/system/etcd_run_test.h"
#include "tests/system/process.h"
#include "worker/push_log.h"

namespace psgd {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

struct SoakOptions {
  uint64_t kills = 100;
  uint64_t seed = 1;
  std::string acknowledge = "journal";
  std::string transport = "auto";
  uint64_t copies = 1;
  std::string folder;
  int64_t undisturbed = 0;  // seconds of training before the first kill, to compare speeds
  int64_t every = 0;        // seconds between two kills
  bool pairs = false;       // a server and a worker at once
  std::vector<std::string> sets;
};

constexpr int kWorkers = 3;
constexpr size_t kServersWithCopies = 3;
constexpr int kEtcdMembers = 3;
constexpr uint32_t kKillsPerLostDisk = 10;
constexpr int kShards = 2;
constexpr int kBatchesPerEpoch = 4096;
// More steps than workers go on without one that is dead (consistency.staleness).
constexpr int64_t kStepsBehind = 10;
constexpr uint64_t kStepsNear = 5000;  // the message about a gap names journals this near
constexpr double kLongWait = 1.5;      // seconds; longer ones are told
// Seconds until training goes on after another server may lead.
constexpr double kMostAfterTakeover = 1;
constexpr size_t kDeathsForAQuantile = 100;
constexpr uint64_t kSaved =
    UINT64_MAX;  // in place of a shard: a saved state, which has a number but is no push

// 0: there are none. `part`: of the values, that are at most the result.
double QuantileOf(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values.empty() ? 0.0 : values[static_cast<size_t>(part * (values.size() - 1))];
}

// Worker, incarnation, shard, seq.
using PushName = std::array<uint64_t, 4>;

class Soak {
 public:
  explicit Soak(SoakOptions options)
      : options_(std::move(options)),
        chance_(PhiloxKey{static_cast<uint32_t>(options_.seed), 0}, 0) {}

  // Returns what went wrong; empty: nothing.
  std::string Run();
  Json Report() const;

 private:
  struct Server {
    std::string run_dir;
    std::unique_ptr<Process> process;
  };
  struct Worker {
    std::string name;
    std::unique_ptr<Process> process;
  };
  struct Entry {
    std::string checksum;  // of the whole entry
    PushName push{};       // seq 0: no push
    std::string pushed;    // checksum of the push
  };
  // The journal of one copy of a shard, after an image.
  struct Copy {
    uint64_t image = 0;  // last step in the image
    bool whole = true;   // the image includes no push
    std::vector<Entry> entries;
    ShardSnapshot begins;  // the image
    ShardSnapshot ends;    // state after the last entry

    uint64_t last() const { return image + entries.size(); }
    const Entry& at(uint64_t step) const { return entries[step - image - 1]; }
  };

  std::string Path(const std::string& name) const {
    return absl::StrCat(options_.folder, "/", name);
  }
  bool HasCopies() const { return options_.copies > 1; }
  // The results of the server that leads the run in the end. Without etcd the first server has
  // them.
  std::string Results() const {
    const std::string shared = Path("results");
    return fs::exists(shared + "/weights.safetensors") ? shared : servers_[0].run_dir;
  }
  std::string WriteConfig() const;
  std::string StartEtcd();
  std::string StartServers();
  void StartServer(Server* server, std::vector<std::string> how);
  // Starts workers again that were killed, or whose lease ended on a busy machine. With kills of a
  // worker and a server at once, all come back under their names, as where systemd starts them
  // again. Otherwise half are new workers, and the run waits for the leases of the dead ones.
  void ReplaceWorkers();
  Json Status() const;
  // The run's clock; -1: nobody answers.
  int64_t Step() const;
  // Batches that count, from the run's beginning: without those that a dead worker's successors
  // repeat.
  double Batches() const;
  struct Pace {
    double batches;
    Clock::time_point when;
  };
  Pace PaceNow() const { return {Batches(), Clock::now()}; }
  double BatchesPerSecond(const Pace& since) const {
    const Pace now = PaceNow();
    return (now.batches - since.batches) /
           std::chrono::duration<double>(now.when - since.when).count();
  }
  bool GoesOn();
  // Whether every shard has all its copies in sync, on connected servers.
  bool InSync() const;
  bool WaitInSync() const {
    return Eventually([this] { return InSync(); }, 60s);
  }
  std::string KillServer();
  double SecondsSinceKill() const;
  void KillWorker();
  // Also waits until training goes on. `with_worker`: a worker was killed just before.
  std::string KillServerAndGoOn(bool with_worker);
  std::string Kill();
  // Test losses after each epoch, in order.
  Json Losses() const;
  std::string Train();
  std::string Audit();
  std::string AuditShard(uint32_t shard, const Config& config);
  absl::StatusOr<Copy> ReadCopy(const std::string& folder, uint32_t shard, const Config& config);
  // Whether the steps before the copy's image are in the other's journal.
  static bool GoesOver(const Copy& other, const Copy& copy);
  // Extends the copy back to the first step, from journals of dead servers.
  std::string ReachBack(uint32_t shard, const Config& config, Copy* copy);
  void AuditPushes(uint32_t shard, const Copy& copy);
  std::string ReadAcknowledged();

  const SoakOptions options_;
  RandomStream chance_;
  std::vector<std::unique_ptr<Process>> etcd_;
  std::vector<Server> servers_;
  std::vector<Worker> workers_;
  std::unique_ptr<JournalKeeper> keeper_;  // null without copies
  std::vector<std::string> where_;         // program arguments that name the run
  int started_workers_ = 0, started_servers_ = 0, names_ = 0;
  int64_t clock_ = 0;
  uint64_t servers_killed_ = 0, workers_killed_ = 0, disks_lost_ = 0;
  Clock::time_point killed_;                  // when the last server was killed
  double undisturbed_ = 0, under_kills_ = 0;  // batches a second
  size_t losses_undisturbed_ = 0;             // of losses_, before the first kill
  Json losses_ = Json::array();
  int64_t worker_killed_at_ = 0;  // step at which the last worker was killed
  // From a server's kill until training went on. If a worker was killed right before, the others
  // also wait until its lease ends. If the killed server may have had the only copy in sync of a
  // shard, all wait until it is back.
  std::vector<double> seconds_to_go_on_, seconds_without_a_worker_, seconds_without_a_copy_;

  std::map<PushName, std::string> acknowledged_;  // checksums
  uint64_t journalled_ = 0, lost_ = 0, twice_ = 0, changed_ = 0, gaps_ = 0, other_weights_ = 0;
  uint64_t copies_missing_ = 0;
};

std::string Soak::WriteConfig() const {
  const std::string path = Path("soak.yaml");
  std::ofstream(path) << R"(name: soak
model: {zoo: mlp, hidden: [32]}
data: {format: synthetic, batch: 16, synthetic: {train_samples: 65536, test_samples: 64, shape: [1, 6, 6], classes: 4}}
train: {epochs: 1000000}
optimizer: {sgd: {learning_rate: 0.01, momentum: 0.9}}
consistency: {staleness: 3}
compression: {push: {topk: {density: 0.1}}, dense_below: 64B}
cluster: {shards: 2, workers: 3, segment: 16, lease: 2s, resend: 200ms, copies: )"
                      << options_.copies << ", transport: " << options_.transport
                      << ", servers: " << (HasCopies() ? kServersWithCopies : 1) << R"(}
durability: {acknowledge: )"
                      << options_.acknowledge << ", journal: 64GiB, checkpoint: 5000 steps}\n";
  return path;
}

void Soak::ReplaceWorkers() {
  workers_.resize(kWorkers);
  for (Worker& worker : workers_) {
    if (worker.process != nullptr && worker.process->Running()) continue;
    const bool comes_back = options_.pairs || ++started_workers_ % 2 == 0;
    if (worker.name.empty() || !comes_back) worker.name = absl::StrCat("w", ++names_);
    worker.process = std::make_unique<Process>(
        std::vector<std::string>{"ps-worker", "--cpu", "--name", worker.name, "--push-log",
                                 Path("acknowledged")} +
        where_);
  }
}

std::string Soak::StartEtcd() {
  std::string members, cluster;
  std::vector<std::array<std::string, 2>> urls;
  for (int i = 0; i < kEtcdMembers; ++i) {
    const std::string address = absl::StrCat("127.0.0.1:", FreePort());
    urls.push_back({"http://" + address, absl::StrCat("http://127.0.0.1:", FreePort())});
    absl::StrAppend(&members, i == 0 ? "" : ",", address);
    absl::StrAppend(&cluster, i == 0 ? "" : ",", "m", i, "=", urls.back()[1]);
  }
  for (int i = 0; i < kEtcdMembers; ++i) {
    const auto& [clients, peers] = urls[i];
    etcd_.push_back(std::make_unique<Process>(std::vector<std::string>{
        "/usr/bin/etcd", "--name", absl::StrCat("m", i), "--data-dir",
        Path(absl::StrCat("etcd-", i)), "--listen-client-urls", clients, "--advertise-client-urls",
        clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
        "--initial-cluster", cluster, "--unsafe-no-fsync", "--auto-compaction-mode=revision",
        "--auto-compaction-retention=100"}));
  }
  for (const auto& member : etcd_) {
    if (!member->WaitFor("client requests on")) return "etcd does not start: " + member->Err();
  }
  where_ = {"--etcd", members, "--run", "soak"};
  return "";
}

void Soak::StartServer(Server* server, std::vector<std::string> how) {
  how.insert(how.begin(), "ps-server");
  how.push_back("--quiet");
  if (HasCopies()) {
    how.insert(how.end(), {"--etcd", where_[1]});
    keeper_->Add(server->run_dir);
  }
  server->process = std::make_unique<Process>(std::move(how));
}

std::string Soak::StartServers() {
  servers_.push_back({Path("run"), nullptr});
  StartServer(&servers_[0], std::vector<std::string>{"--config", WriteConfig(), "--port", "0",
                                                     "--run-dir", servers_[0].run_dir} +
                                options_.sets);
  if (!servers_[0].process->WaitFor("ready")) return servers_[0].process->Err();
  if (!HasCopies()) {
    const std::string out = servers_[0].process->Out();
    const size_t at = out.find("--server ") + 9;
    where_ = {"--server", out.substr(at, out.find('\n', at) - at)};
    return "";
  }
  started_servers_ = 1;
  fs::create_directories(Path("results"));
  while (servers_.size() < kServersWithCopies) {
    servers_.push_back({Path(absl::StrCat("server-", ++started_servers_)), nullptr});
    StartServer(&servers_.back(), {"--join", "soak", "--run-dir", servers_.back().run_dir,
                                   "--results", Path("results")});
    if (!servers_.back().process->WaitFor("joined")) return servers_.back().process->Err();
  }
  return "";
}

Json Soak::Status() const {
  const Ended status =
      RunProgram(std::vector<std::string>{"ps-ctl", "status", "--json"} + where_, 20s);
  return status.code == 0 ? Json::parse(status.out, nullptr, false) : Json();
}

int64_t Soak::Step() const {
  const Json status = Status();
  if (!status.is_object()) return -1;
  int64_t clock = -1;
  for (const auto& shard : status["shards"]) {
    clock = std::max(clock,
                     static_cast<int64_t>(std::atol(shard.value("slowest_clock", "-1").c_str())));
  }
  return clock;
}

double Soak::Batches() const {
  const Json status = Status();
  return status.is_object() ? status.value("epoch", 0.0) * kBatchesPerEpoch : 0;
}

bool Soak::InSync() const {
  const Json status = Status();
  if (!status.is_object()) return false;
  std::set<int> here;
  for (const auto& server : status["servers"]) {
    if (server.value("connected", false)) here.insert(server["server"].get<int>());
  }
  for (const auto& shard : status["shards"]) {
    uint64_t in_sync = 0;
    for (const auto& server : shard["in_sync"]) in_sync += here.count(server.get<int>());
    if (in_sync < options_.copies) return false;
  }
  return true;
}

bool Soak::GoesOn() {
  return Eventually(
      [&] {
        ReplaceWorkers();
        const int64_t clock = Step();
        if (clock <= clock_) return false;
        clock_ = clock;
        return true;
      },
      40s);
}

std::string Soak::KillServer() {
  const bool loses_disk = HasCopies() && chance_.NextBelow(kKillsPerLostDisk) == 0;
  if (loses_disk && !WaitInSync()) return "copies do not get in sync";
  Server& victim = servers_[chance_.NextBelow(static_cast<uint32_t>(servers_.size()))];
  if (!victim.process->Running()) return "a server ended: " + victim.process->Err();
  killed_ = Clock::now();
  victim.process->Signal(SIGKILL);
  victim.process->Wait();
  ++servers_killed_;
  if (keeper_ != nullptr) keeper_->KeepNow();
  if (!HasCopies()) {
    StartServer(&victim, {"--recover", victim.run_dir});
    return victim.process->WaitFor("ready")
               ? ""
               : "the server did not come back: " + victim.process->Err();
  }
  if (loses_disk) {
    ++disks_lost_;
    fs::remove_all(victim.run_dir);
    victim.run_dir = Path(absl::StrCat("server-", ++started_servers_));
  }
  StartServer(&victim,
              {"--join", "soak", "--run-dir", victim.run_dir, "--results", Path("results")});
  return "";
}

double Soak::SecondsSinceKill() const {
  return std::chrono::duration<double>(Clock::now() - killed_).count();
}

void Soak::KillWorker() {
  Process& victim = *workers_[chance_.NextBelow(static_cast<uint32_t>(workers_.size()))].process;
  victim.Signal(SIGKILL);
  victim.Wait();
  ++workers_killed_;
}

std::string Soak::KillServerAndGoOn(bool with_worker) {
  const int64_t killed_at = clock_;
  const bool all_copies = !HasCopies() || InSync();
  if (with_worker) KillWorker();
  const std::string failed = KillServer();
  if (!failed.empty()) return failed;
  // Pushes on their way may still count.
  Eventually([&] { return (clock_ = Step()) >= 0; }, 40s);
  const double answered = SecondsSinceKill();
  if (!GoesOn()) return "training stands still after a server was killed";
  const double seconds = SecondsSinceKill();
  const bool all_workers = !with_worker && killed_at > worker_killed_at_ + kStepsBehind;
  const auto [times, away] =
      !all_copies    ? std::pair(&seconds_without_a_copy_, " (without a copy in sync)")
      : !all_workers ? std::pair(&seconds_without_a_worker_, " (a worker was away, too)")
                     : std::pair(&seconds_to_go_on_, "");
  times->push_back(seconds);
  if (seconds > kLongWait) {
    std::cerr << absl::StrFormat(
        "step %d: %.1f s after the kill of a server training goes on%s; it answered after %.1f "
        "s\n",
        clock_, seconds, away, answered);
  }
  return "";
}

std::string Soak::Kill() {
  Pause(std::chrono::milliseconds(chance_.NextBelow(150)));
  if (options_.pairs || chance_.NextBelow(2) == 0) return KillServerAndGoOn(options_.pairs);
  KillWorker();
  worker_killed_at_ = Step();
  ReplaceWorkers();
  return "";
}

Json Soak::Losses() const {
  Json losses = Json::array();
  const Json status = Status();
  if (!status.is_object()) return losses;
  for (const auto& evaluation : status["evaluations"]) {
    losses.push_back({{"epoch", evaluation["epoch"]}, {"loss", evaluation["loss"]}});
  }
  return losses;
}

std::string Soak::Train() {
  if (HasCopies()) keeper_ = std::make_unique<JournalKeeper>(Path("kept"), kShards);
  std::string failed = HasCopies() ? StartEtcd() : "";
  if (failed.empty()) failed = StartServers();
  if (!failed.empty()) return failed;
  ReplaceWorkers();
  if (options_.undisturbed > 0) {
    if (!GoesOn()) return "training does not begin";
    const Pace pace = PaceNow();
    Pause(std::chrono::seconds(options_.undisturbed));
    undisturbed_ = BatchesPerSecond(pace);
    losses_undisturbed_ = Losses().size();
  }
  const Pace pace = PaceNow();
  for (uint64_t kill = 0; kill < options_.kills; ++kill) {
    const auto due = pace.when + std::chrono::seconds(options_.every * static_cast<int64_t>(kill));
    if (due > Clock::now()) {
      Pause(std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now()));
    }
    failed = GoesOn() ? Kill() : "training stands still";
    if (!failed.empty()) {
      for (const Worker& worker : workers_) absl::StrAppend(&failed, "\n", worker.process->Err());
      for (const Server& server : servers_) absl::StrAppend(&failed, "\n", server.process->Err());
      return absl::StrCat("after ", kill, " kills: ", failed);
    }
    if (kill % 50 == 49) std::cerr << kill + 1 << " kills, clock " << clock_ << "\n";
  }
  if (!GoesOn()) return "training does not go on after the last kill";
  under_kills_ = BatchesPerSecond(pace);
  losses_ = Losses();
  if (HasCopies() && !WaitInSync()) return "copies do not get in sync after the last kill";
  const Ended drained = RunProgram(std::vector<std::string>{"ps-ctl", "drain"} + where_);
  if (drained.code != 0) return "drain: " + drained.err;
  for (const Server& server : servers_) {
    const Ended ended = server.process->Wait(120s);
    if (ended.code != 3 && ended.code != 0)
      return absl::StrCat("a server ended with ", ended.code, ": ", ended.err);
  }
  for (const Worker& worker : workers_) worker.process->Wait();
  keeper_.reset();
  return "";
}

std::string Soak::ReadAcknowledged() {
  std::ifstream in(Path("acknowledged"));
  PushName name;
  std::string checksum;
  while (in >> name[0] >> name[1] >> name[2] >> name[3] >> checksum) acknowledged_[name] = checksum;
  return acknowledged_.empty() ? "no push was acknowledged" : "";
}

absl::StatusOr<Soak::Copy> Soak::ReadCopy(const std::string& folder, uint32_t shard,
                                          const Config& config) {
  RocksJournalOptions options;
  options.folder = folder;
  options.shard = shard;
  Copy copy;
  std::vector<std::string> notes;
  {
    PSGD_ASSIGN_OR_RETURN(const auto journal, RocksJournal::Open(options));
    PSGD_ASSIGN_OR_RETURN(const ShardImage first, journal->LoadImage(&notes));
    copy.image = first.record.entry();
    copy.begins = first.arrays;
    for (const MemberRecord& member : first.record.members()) copy.whole &= member.next_seq() <= 1;
    PSGD_RETURN_IF_ERROR(journal->Replay(copy.image, [&](const JournalEntry& entry) {
      Entry& added = copy.entries.emplace_back();
      DataHeader header = entry.head.message();
      added.pushed = absl::StrFormat("%016x", PayloadChecksum({header, entry.payloads}));
      added.checksum = absl::StrCat(entry.head.SerializeAsString(), added.pushed);
      if (header.has_push())
        added.push = {header.worker(), header.incarnation(), shard, header.push().seq()};
      if (header.has_save_state())
        added.push = {header.worker(), header.incarnation(), kSaved, header.save_state().seq()};
      return absl::OkStatus();
    }));
  }
  DurableShardOptions durable;
  durable.shard.shard = shard;
  durable.shard.config = config;
  PSGD_ASSIGN_OR_RETURN(durable.journal, RocksJournal::Open(options));
  PSGD_ASSIGN_OR_RETURN(const auto again, DurableShard::Recover(std::move(durable), &notes));
  copy.ends = again->core().MakeImage().arrays;
  return copy;
}

bool Soak::GoesOver(const Copy& other, const Copy& copy) {
  const uint64_t image = copy.image;
  if (other.image >= image || other.last() < image) return false;
  // The same step at the same position means that the earlier steps are the same too.
  if (other.last() > image && copy.last() > image)
    return other.at(image + 1).checksum == copy.at(image + 1).checksum;
  if (other.last() > image) return false;
  // The other journal ends at the image's step, so its end state must equal the image.
  for (size_t i = 0; i < copy.begins.slices.size(); ++i) {
    const auto& made = other.ends.slices[i].weights;
    const auto& held = copy.begins.slices[i].weights;
    if (made.size() != held.size() || std::memcmp(made.data(), held.data(), made.size()) != 0)
      return false;
  }
  return true;
}

std::string Soak::ReachBack(uint32_t shard, const Config& config, Copy* copy) {
  std::vector<Copy> dead;
  if (!copy->whole) {
    for (const auto& [newest, before] : JournalKeeper::Of(Path("kept"), static_cast<int>(shard))) {
      auto one = ReadCopy(newest, shard, config);
      if (!one.ok()) one = ReadCopy(before, shard, config);
      if (one.ok()) dead.push_back(*std::move(one));
    }
  }
  while (!copy->whole) {
    const uint64_t image = copy->image;
    for (const Copy& other : dead) {
      if (!GoesOver(other, *copy)) continue;
      copy->entries.insert(
          copy->entries.begin(), other.entries.begin(),
          other.entries.begin() + static_cast<std::ptrdiff_t>(image - other.image));
      copy->image = other.image;
      copy->whole = other.whole;
      copy->begins = other.begins;
      break;
    }
    if (copy->image != image) continue;
    std::string have;
    for (const Copy& other : dead) {
      if (other.last() + kStepsNear < image || other.image > image + kStepsNear) continue;
      absl::StrAppend(&have, " ", other.image + 1, " to ", other.last(), ";");
    }
    return absl::StrCat("shard ", shard,
                        ": no journal goes over into the one that begins after step ", image,
                        " and ends at ", copy->last(), "; those nearby are", have);
  }
  return "";
}

void Soak::AuditPushes(uint32_t shard, const Copy& copy) {
  std::map<PushName, std::string> pushes;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> next;  // worker, incarnation -> seq
  for (const Entry& entry : copy.entries) {
    const auto& [worker, incarnation, of, seq] = entry.push;
    if (seq == 0) continue;
    uint64_t& expected = next.try_emplace({worker, incarnation}, 1).first->second;
    gaps_ += seq != expected;
    expected = seq + 1;
    if (of != kSaved) twice_ += !pushes.emplace(entry.push, entry.pushed).second;
  }
  journalled_ += pushes.size();
  for (const auto& [name, checksum] : acknowledged_) {
    if (name[2] != shard) continue;
    const auto here = pushes.find(name);
    lost_ += here == pushes.end();
    changed_ += here != pushes.end() && here->second != checksum;
  }
}

std::string Soak::AuditShard(uint32_t shard, const Config& config) {
  std::vector<Copy> copies;
  for (const Server& server : servers_) {
    const std::string folder = absl::StrCat(server.run_dir, "/server/journal/shard-", shard);
    if (!fs::exists(folder)) continue;
    auto copy = ReadCopy(folder, shard, config);
    if (!copy.ok()) return absl::StrCat(folder, ": ", copy.status().ToString());
    copies.push_back(*std::move(copy));
  }
  uint64_t last = 0;
  for (const Copy& copy : copies) last = std::max(last, copy.last());
  // Shorter copies were left by servers that no longer followed.
  std::erase_if(copies, [&](const Copy& copy) { return copy.last() < last; });
  copies_missing_ += options_.copies - std::min<uint64_t>(options_.copies, copies.size());
  if (copies.empty()) return "";
  const auto saved = SafetensorsFile::Read(Results() + "/weights.safetensors");
  if (!saved.ok()) return saved.status().ToString();
  for (const Copy& copy : copies) {
    for (const SliceSnapshot& slice : copy.ends.slices) {
      const NamedTensor* whole = saved->Find(slice.parameter);
      other_weights_ += whole == nullptr || std::memcmp(slice.weights.data(),
                                                        whole->values.data() + slice.spec.offset(),
                                                        slice.weights.size()) != 0;
    }
  }
  std::string failed = ReachBack(shard, config, &copies[0]);
  if (failed.empty()) AuditPushes(shard, copies[0]);
  return failed;
}

std::string Soak::Audit() {
  std::string failed = ReadAcknowledged();
  const auto config = LoadConfig(RunDir(servers_[0].run_dir).ConfigFile());
  if (!config.ok()) return config.status().ToString();
  for (int s = 0; failed.empty() && s < config->cluster().shards(); ++s) {
    failed = AuditShard(static_cast<uint32_t>(s), *config);
  }
  if (!failed.empty()) return failed;
  const bool sound = lost_ + twice_ + changed_ + gaps_ + other_weights_ + copies_missing_ == 0;
  if (!sound) return "the audit found what must not be";
  const double most = Seconds(Milliseconds(config->durability().takeover())) + kMostAfterTakeover;
  const double seconds = QuantileOf(seconds_to_go_on_, 0.99);
  const bool counts = HasCopies() && seconds_to_go_on_.size() >= kDeathsForAQuantile;
  if (!counts || seconds <= most) return "";
  return absl::StrFormat("training went on %.2f s after a server died (99 %%), not within %.2f s",
                         seconds, most);
}

std::string Soak::Run() {
  std::string failed = Train();
  for (Server& server : servers_) server.process.reset();
  workers_.clear();
  etcd_.clear();
  return failed.empty() ? Audit() : failed;
}

Json Soak::Report() const {
  const auto spread = [](const std::vector<double>& seconds) -> Json {
    return {{"times", seconds.size()},
            {"median", QuantileOf(seconds, 0.5)},
            {"p99", QuantileOf(seconds, 0.99)},
            {"max", QuantileOf(seconds, 1)}};
  };
  const auto first_kill =
      losses_.begin() + static_cast<std::ptrdiff_t>(std::min(losses_undisturbed_, losses_.size()));
  const Json undisturbed(std::vector<Json>(losses_.begin(), first_kill));
  const Json under_kills(std::vector<Json>(first_kill, losses_.end()));
  return {{"kills", servers_killed_ + workers_killed_},
          {"servers_killed", servers_killed_},
          {"workers_killed", workers_killed_},
          {"disks_lost", disks_lost_},
          {"copies", options_.copies},
          {"acknowledge", options_.acknowledge},
          {"transport", options_.transport},
          {"seconds_to_go_on", spread(seconds_to_go_on_)},
          {"seconds_without_a_worker", spread(seconds_without_a_worker_)},
          {"seconds_without_a_copy", spread(seconds_without_a_copy_)},
          {"batches_per_second", {{"undisturbed", undisturbed_}, {"under_kills", under_kills_}}},
          {"losses", {{"undisturbed", undisturbed}, {"under_kills", under_kills}}},
          {"clock", clock_},
          {"pushes_acknowledged", acknowledged_.size()},
          {"pushes_journalled", journalled_},
          {"acknowledged_and_lost", lost_},
          {"applied_twice", twice_},
          {"changed", changed_},
          {"gaps", gaps_},
          {"copies_missing", copies_missing_},
          {"slices_with_other_weights_than_replayed", other_weights_}};
}

int Main(int argc, char** argv) {
  SoakOptions options;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--pairs") {
      options.pairs = true;
      continue;
    }
    const bool known =
        (absl::ConsumePrefix(&argument, "--kills=") &&
         absl::SimpleAtoi(argument, &options.kills)) ||
        (absl::ConsumePrefix(&argument, "--seed=") && absl::SimpleAtoi(argument, &options.seed)) ||
        (absl::ConsumePrefix(&argument, "--copies=") &&
         absl::SimpleAtoi(argument, &options.copies) && options.copies > 0) ||
        (absl::ConsumePrefix(&argument, "--acknowledge=") &&
         !(options.acknowledge = std::string(argument)).empty()) ||
        (absl::ConsumePrefix(&argument, "--transport=") &&
         !(options.transport = std::string(argument)).empty()) ||
        (absl::ConsumePrefix(&argument, "--folder=") &&
         !(options.folder = std::string(argument)).empty()) ||
        (absl::ConsumePrefix(&argument, "--undisturbed=") &&
         absl::SimpleAtoi(argument, &options.undisturbed)) ||
        (absl::ConsumePrefix(&argument, "--every=") && absl::SimpleAtoi(argument, &options.every));
    if (!known && absl::ConsumePrefix(&argument, "--set=")) {
      options.sets.insert(options.sets.end(), {"--set", std::string(argument)});
      continue;
    }
    if (!known) {
      std::cerr
          << argv[i]
          << ": use --kills=N, --seed=N, --copies=N, --acknowledge=LEVEL, --transport=NAME, "
             "--folder=DIR, --undisturbed=SECONDS, --every=SECONDS, --pairs, --set=KEY=VALUE\n";
      return 2;
    }
  }
  const bool own_folder = options.folder.empty();
  if (own_folder) {
    std::string made = "/tmp/psgd-soak-XXXXXX";
    options.folder = mkdtemp(made.data());
  }
  fs::create_directories(options.folder);
  Soak soak(options);
  const std::string failed = soak.Run();
  std::cout << soak.Report().dump() << std::endl;
  if (!failed.empty()) {
    std::cerr << failed << "\nwhat is left is in " << options.folder << "\n";
    return 1;
  }
  if (own_folder) fs::remove_all(options.folder);
  return 0;
}

}  // namespace
}  // namespace psgd

int main(int argc, char** argv) { return psgd::Main(argc, argv); }
