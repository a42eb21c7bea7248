// Kills processes of a run at random, again and again, and then audits what is left.
//
//   kill_soak --kills=1000 --seed=7 [--acknowledge=fsync] [--folder=DIR]
//
// A ps-server with a journal and three ps-workers train. One of them is killed (SIGKILL), the
// server as often as a worker, and started again; the next falls once training has gone on. At the
// end, from the journals that are left, nothing of which was trimmed:
//   - every push that a worker saw acknowledged is there, with the bytes that the worker sent;
//   - none is there twice, and each worker's are without a gap;
//   - replaying them makes the weights that the server saved, bit for bit.
#include <signal.h>

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
#include "common/philox.h"
#include "data/safetensors.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/run_dir.h"
#include "server/durability/durable_shard.h"
#include "server/durability/rocks_journal.h"
#include "tests/system/process.h"
#include "worker/push_log.h"

namespace psgd {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

struct SoakOptions {
  uint64_t kills = 100;
  uint64_t seed = 1;
  std::string acknowledge = "journal";
  std::string folder;
};

constexpr int kWorkers = 3;

// Worker, incarnation, shard, seq.
using PushName = std::array<uint64_t, 4>;

class Soak {
 public:
  explicit Soak(SoakOptions options)
      : options_(std::move(options)),
        chance_(PhiloxKey{static_cast<uint32_t>(options_.seed), 0}, 0) {}

  // Empty: all is as it should be.
  std::string Run();
  Json Report() const;

 private:
  std::string Path(const std::string& name) const {
    return absl::StrCat(options_.folder, "/", name);
  }
  std::string WriteConfig() const;
  void StartWorker();
  // Of those who were killed, and of those whom a busy machine kept from being heard in time.
  void ReplaceWorkers();
  // The clock that the run has reached; -1: nobody answers.
  int64_t Clock() const;
  bool GoesOn();
  std::string KillOne();
  std::string Train();
  std::string Audit();
  std::string AuditShard(uint32_t shard, const Config& config);
  std::string ReadAcknowledged();

  const SoakOptions options_;
  RandomStream chance_;
  std::unique_ptr<Process> server_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::string address_;
  int started_workers_ = 0;
  int64_t clock_ = 0;
  uint64_t servers_killed_ = 0, workers_killed_ = 0;

  std::map<PushName, std::string> acknowledged_;  // checksums
  uint64_t journalled_ = 0, lost_ = 0, twice_ = 0, changed_ = 0, gaps_ = 0, other_weights_ = 0;
};

std::string Soak::WriteConfig() const {
  const std::string path = Path("soak.yaml");
  std::ofstream(path) << R"(name: soak
model: {zoo: mlp, hidden: [32]}
data: {format: synthetic, batch: 16, synthetic: {train_samples: 4096, test_samples: 64, shape: [1, 6, 6], classes: 4}}
train: {epochs: 1000000}
optimizer: {sgd: {learning_rate: 0.01, momentum: 0.9}}
consistency: {staleness: 3}
compression: {push: {topk: {density: 0.1}}, dense_below: 64B}
cluster: {shards: 2, workers: 3, segment: 16, lease: 2s, resend: 200ms}
durability: {acknowledge: )"
                      << options_.acknowledge << ", journal: 64GiB, checkpoint: 5000 steps}\n";
  return path;
}

void Soak::StartWorker() {
  workers_.push_back(std::make_unique<Process>(std::vector<std::string>{
      "ps-worker", "--cpu", "--server", address_, "--name", absl::StrCat("w", started_workers_++),
      "--push-log", Path("acknowledged")}));
}

void Soak::ReplaceWorkers() {
  std::erase_if(workers_, [](const auto& worker) { return !worker->Running(); });
  while (workers_.size() < kWorkers) StartWorker();
}

int64_t Soak::Clock() const {
  const Ended status = RunProgram({"ps-ctl", "status", "--json", "--server", address_}, 20s);
  const auto json = Json::parse(status.out, nullptr, false);
  if (status.code != 0 || !json.is_object()) return -1;
  int64_t clock = -1;
  for (const auto& shard : json["shards"]) {
    clock = std::max(clock,
                     static_cast<int64_t>(std::atol(shard.value("slowest_clock", "-1").c_str())));
  }
  return clock;
}

bool Soak::GoesOn() {
  return Eventually(
      [&] {
        ReplaceWorkers();
        const int64_t clock = Clock();
        if (clock <= clock_) return false;
        clock_ = clock;
        return true;
      },
      40s);
}

std::string Soak::KillOne() {
  Pause(std::chrono::milliseconds(chance_.NextBelow(150)));
  if (chance_.NextBelow(2) == 0) {
    server_->Signal(SIGKILL);
    server_->Wait();
    ++servers_killed_;
    server_ = std::make_unique<Process>(
        std::vector<std::string>{"ps-server", "--recover", Path("run"), "--quiet"});
    if (!server_->WaitFor("ready"))
      return absl::StrCat("the server did not come back: ", server_->Err());
  } else {
    auto& victim = workers_[chance_.NextBelow(static_cast<uint32_t>(workers_.size()))];
    victim->Signal(SIGKILL);
    victim->Wait();
    ++workers_killed_;
    ReplaceWorkers();
  }
  return "";
}

std::string Soak::Train() {
  server_ = std::make_unique<Process>(std::vector<std::string>{
      "ps-server", "--config", WriteConfig(), "--port", "0", "--run-dir", Path("run"), "--quiet"});
  if (!server_->WaitFor("ready")) return server_->Err();
  const std::string out = server_->Out();
  const size_t at = out.find("--server ") + 9;
  address_ = out.substr(at, out.find('\n', at) - at);
  for (int i = 0; i < kWorkers; ++i) StartWorker();
  for (uint64_t kill = 0; kill < options_.kills; ++kill) {
    if (!GoesOn()) {
      std::string said;
      for (const auto& worker : workers_) absl::StrAppend(&said, worker->Err());
      return absl::StrCat("training stands still after ", kill, " kills\n", said);
    }
    const std::string failed = KillOne();
    if (!failed.empty()) return failed;
    if (kill % 50 == 49) std::cerr << kill + 1 << " kills, clock " << clock_ << "\n";
  }
  if (!GoesOn()) return "training does not go on after the last kill";
  server_->Signal(SIGTERM);
  const Ended ended = server_->Wait(120s);
  if (ended.code != 3) return absl::StrCat("the server ended with ", ended.code, ": ", ended.err);
  for (const auto& worker : workers_) worker->Wait();
  return "";
}

std::string Soak::ReadAcknowledged() {
  std::ifstream in(Path("acknowledged"));
  PushName name;
  std::string checksum;
  while (in >> name[0] >> name[1] >> name[2] >> name[3] >> checksum) acknowledged_[name] = checksum;
  return acknowledged_.empty() ? "no push was acknowledged" : "";
}

std::string Soak::AuditShard(uint32_t shard, const Config& config) {
  RocksJournalOptions options;
  options.folder = absl::StrCat(Path("run/server/journal/shard-"), shard);
  options.shard = shard;
  DurableShardOptions durable;
  durable.shard.shard = shard;
  durable.shard.config = config;
  {
    auto journal = RocksJournal::Open(options);
    if (!journal.ok()) return journal.status().ToString();
    std::map<std::pair<uint64_t, uint64_t>, uint64_t> next;  // worker, incarnation -> seq
    std::set<PushName> seen;
    std::vector<std::string> notes;
    const auto first = (*journal)->LoadImage(&notes);
    if (!first.ok()) return first.status().ToString();
    const absl::Status read =
        (*journal)->Replay(first->record.entry(), [&](const JournalEntry& entry) {
          if (!entry.head.has_message()) return absl::OkStatus();
          const DataHeader& header = entry.head.message();
          const uint64_t seq = header.has_push() ? header.push().seq() : header.save_state().seq();
          uint64_t& expected =
              next.try_emplace({header.worker(), header.incarnation()}, 1).first->second;
          gaps_ += seq != expected;
          expected = seq + 1;
          if (!header.has_push()) return absl::OkStatus();
          ++journalled_;
          const PushName name = {header.worker(), header.incarnation(), shard, seq};
          twice_ += !seen.insert(name).second;
          const auto known = acknowledged_.find(name);
          const std::string checksum =
              absl::StrFormat("%016x", PayloadChecksum({header, entry.payloads}));
          changed_ += known != acknowledged_.end() && known->second != checksum;
          return absl::OkStatus();
        });
    if (!read.ok()) return read.ToString();
    for (const auto& [name, checksum] : acknowledged_)
      lost_ += name[2] == shard && !seen.count(name);
  }
  auto journal = RocksJournal::Open(options);
  if (!journal.ok()) return journal.status().ToString();
  durable.journal = *std::move(journal);
  std::vector<std::string> notes;
  const auto again = DurableShard::Recover(std::move(durable), &notes);
  if (!again.ok()) return again.status().ToString();
  const ShardImage image = (*again)->core().MakeImage();
  const auto saved = SafetensorsFile::Read(Path("run/weights.safetensors"));
  if (!saved.ok()) return saved.status().ToString();
  for (const SliceSnapshot& slice : image.arrays.slices) {
    const NamedTensor* whole = saved->Find(slice.parameter);
    other_weights_ += whole == nullptr ||
                      std::memcmp(slice.weights.data(), whole->values.data() + slice.spec.offset(),
                                  slice.weights.size()) != 0;
  }
  return "";
}

std::string Soak::Audit() {
  std::string failed = ReadAcknowledged();
  const auto config = LoadConfig(RunDir(Path("run")).ConfigFile());
  if (!config.ok()) return config.status().ToString();
  for (int s = 0; failed.empty() && s < config->cluster().shards(); ++s) {
    failed = AuditShard(static_cast<uint32_t>(s), *config);
  }
  if (!failed.empty()) return failed;
  const bool sound = lost_ + twice_ + changed_ + gaps_ + other_weights_ == 0;
  return sound ? "" : "the audit found what must not be";
}

std::string Soak::Run() {
  std::string failed = Train();
  server_.reset();
  workers_.clear();
  return failed.empty() ? Audit() : failed;
}

Json Soak::Report() const {
  return {{"kills", servers_killed_ + workers_killed_},
          {"servers_killed", servers_killed_},
          {"workers_killed", workers_killed_},
          {"acknowledge", options_.acknowledge},
          {"clock", clock_},
          {"pushes_acknowledged", acknowledged_.size()},
          {"pushes_journalled", journalled_},
          {"acknowledged_and_lost", lost_},
          {"applied_twice", twice_},
          {"changed", changed_},
          {"gaps", gaps_},
          {"slices_with_other_weights_than_replayed", other_weights_}};
}

int Main(int argc, char** argv) {
  SoakOptions options;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    const bool known =
        (absl::ConsumePrefix(&argument, "--kills=") &&
         absl::SimpleAtoi(argument, &options.kills)) ||
        (absl::ConsumePrefix(&argument, "--seed=") && absl::SimpleAtoi(argument, &options.seed)) ||
        (absl::ConsumePrefix(&argument, "--acknowledge=") &&
         !(options.acknowledge = std::string(argument)).empty()) ||
        (absl::ConsumePrefix(&argument, "--folder=") &&
         !(options.folder = std::string(argument)).empty());
    if (!known) {
      std::cerr << argv[i] << ": use --kills=N, --seed=N, --acknowledge=LEVEL, --folder=DIR\n";
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
