#include "server/control/follower.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/random_id.h"
#include "net/wire_format.h"
#include "server/control/earlier_server.h"
#include "server/control/replicated_journal.h"
#include "server/durability/journal_folder.h"
#include "server/durability/rocks_journal.h"

namespace psgd {
namespace {

constexpr Duration kConnectPatience = std::chrono::milliseconds(500);
constexpr Duration kFollowAgain = std::chrono::milliseconds(50);
constexpr Duration kLook = std::chrono::milliseconds(20);
// A leader whose followers write nothing takes some times durability.takeover to answer.
constexpr Duration kRunPatience = std::chrono::seconds(5);

// What a leader says first. One that stops once it is reached would never say it; UNAVAILABLE then.
absl::Status ReadFirst(LeaderLink* link, const FollowerOptions& options, LogPart* part) {
  auto read = std::async(std::launch::async, [&] { return link->Read(part); });
  const Duration patience = std::min(kRunPatience, options.connect_deadline);
  const Time start = SteadyNow();
  absl::Status given_up;
  while (read.wait_for(kLook) != std::future_status::ready) {
    given_up = options.interrupted();
    if (given_up.ok() && SteadyNow() - start > patience)
      given_up = absl::UnavailableError("it says nothing");
    if (!given_up.ok()) break;
  }
  if (!given_up.ok()) link->Cancel();
  if (read.get()) return absl::OkStatus();
  return given_up.ok() ? link->Finish() : given_up;
}

bool Over(const CoordinatorRecord& record) {
  return record.state() == StatusReply::FINISHED || record.state() == StatusReply::FAILED;
}

}  // namespace

Follower::Follower(FollowerOptions options)
    : options_(std::move(options)),
      address_(absl::StrCat(options_.advertise.empty() ? options_.host : options_.advertise, ":",
                            options_.control_port)) {}

FollowerSays::Ask Follower::Ask() const {
  FollowerSays::Ask ask;
  ask.set_replica(replica());
  ask.set_identity(options_.self.identity());
  ask.set_run_id(options_.self.run_id());
  ask.set_address(address_);
  ask.set_protocol(kProtocolVersion);
  return ask;
}

absl::StatusOr<std::unique_ptr<Follower>> Follower::Connect(FollowerOptions options) {
  if (options.self.run_id().empty()) options.self.set_identity(RandomId());
  std::unique_ptr<Follower> follower(new Follower(std::move(options)));
  const FollowerOptions& o = follower->options_;
  const Time start = SteadyNow();
  absl::Status reached = follower->Reach();
  while (absl::IsUnavailable(reached) && SteadyNow() - start < o.connect_deadline) {
    std::this_thread::sleep_for(kFollowAgain);
    PSGD_RETURN_IF_ERROR(o.interrupted());
    reached = follower->Reach();
  }
  if (absl::IsUnavailable(reached)) {
    return absl::UnavailableError(absl::StrCat(
        "no server leads a run ", follower->LeadersText(), " (", std::string(reached.message()),
        "); is ps-server running there, with durability.acknowledge: replicated, and is the "
        "address "
        "that of its control port?",
        o.credentials == nullptr
            ? " Does it ask for certificates (--tls-dir)?"
            : " Are both sides' certificates of one authority, and is this one's for "
              "clients, too (scripts/make-certs.sh --renew server DIR)?"));
  }
  PSGD_RETURN_IF_ERROR(reached);
  return follower;
}

Follower::~Follower() = default;

absl::Status Follower::Reach() {
  absl::Status last = absl::UnavailableError("nobody was asked");
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> leaders, Leaders());
  for (const std::string& leader : leaders) {
    FollowerSays::Ask ask = Ask();
    ask.set_coordinator(true);
    auto link =
        std::make_unique<LeaderLink>(leader, options_.credentials.get(), kConnectPatience, ask);
    if (!link->connected()) {
      last = absl::UnavailableError(absl::StrCat("no answer from ", leader));
      continue;
    }
    LogPart part;
    if (const absl::Status begun = ReadFirst(link.get(), options_, &part); !begun.ok()) {
      last = Annotate(begun, leader);
      continue;
    }
    if (!part.has_run()) return absl::InternalError(absl::StrCat(leader, " sent no run"));
    run_ = part.run();
    options_.self.set_replica(run_.replica());
    options_.self.set_run_id(run_.run_id());
    coordinator_ = std::move(link);
    leader_ = leader;
    Heard();
    return absl::OkStatus();
  }
  return last;
}

absl::StatusOr<std::vector<std::string>> Follower::Leaders() const {
  if (options_.chains != nullptr) {
    // Nobody else: who begins to follow gives up what it holds, and one that hangs does not know
    // that another leads.
    PSGD_ASSIGN_OR_RETURN(const ChainStore::Held held, options_.chains->Read());
    if (held.revision == 0) return absl::UnavailableError("etcd knows no such run");
    const std::string& leader = held.chain.members(0).address();
    if (leader != address_) return std::vector<std::string>{leader};
    return absl::UnavailableError("etcd knows it to be led from here: ps-server --recover RUN_DIR");
  }
  std::lock_guard lock(mutex_);
  std::vector<std::string> leaders = options_.leaders;
  // By now another of the chain may lead.
  for (const Chain::Member& member : record_.chain().members()) {
    const bool known = std::find(leaders.begin(), leaders.end(), member.address()) != leaders.end();
    if (!known && member.address() != address_) leaders.push_back(member.address());
  }
  return leaders;
}

std::string Follower::LeadersText() const {
  return options_.leaders.empty() ? "that etcd knows by this name"
                                  : absl::StrCat("at ", absl::StrJoin(options_.leaders, " or "));
}

absl::StatusOr<Follower::End> Follower::Follow(const std::string& server_dir, Log log) {
  server_dir_ = server_dir;
  log_ = std::move(log);
  PSGD_RETURN_IF_ERROR(SaveFollowerRecord(server_dir_, options_.self));
  PSGD_RETURN_IF_ERROR(MakeJournalFolder(server_dir_, log_));
  const auto& cluster = config().cluster();
  followers_ = std::make_shared<FollowerSet>(cluster.shards(),
                                             Milliseconds(config().durability().takeover()));
  while (true) {
    const absl::Status ended = FollowConnection();
    PSGD_RETURN_IF_ERROR(options_.interrupted());
    // A leader that ends says goodbye; one that dies does not.
    if (Over(record_) && !absl::IsUnavailable(ended) && !absl::IsDeadlineExceeded(ended)) {
      return End::kOver;
    }
    if (absl::IsDataLoss(ended) || absl::IsResourceExhausted(ended)) return ended;
    log_->warn("the leader at {} is gone: {}", leader_, ended.ToString());
    absl::Status reached, why_not = absl::FailedPreconditionError(
                              "it does not hold the whole run, since it had only begun to follow. "
                              "Start the leader again: "
                              "ps-server --recover RUN_DIR");
    std::string told;
    bool may_not = !MayLead();
    if (may_not) options_.tell(FollowerNews::kMayNotLead);
    do {
      if (MayLead() && Silence() > Patience()) {
        why_not = TryToLead();
        // The leader's lease may last some seconds; meanwhile reaching for a dead leader takes
        // long.
        const Time start = SteadyNow();
        while (absl::IsUnavailable(why_not) && SteadyNow() - start < kConnectPatience) {
          PSGD_RETURN_IF_ERROR(options_.interrupted());
          std::this_thread::sleep_for(kFollowAgain);
          why_not = TryToLead();
        }
        if (why_not.ok()) return End::kLead;
        if (told != why_not.message()) {
          told = std::string(why_not.message());
          log_->warn("does not take over: {}", told);
        }
        // Nor will it: others decided so.
        if (!may_not && absl::IsFailedPrecondition(why_not))
          options_.tell(FollowerNews::kMayNotLead);
        may_not = may_not || absl::IsFailedPrecondition(why_not);
      }
      std::this_thread::sleep_for(kLook);
      PSGD_RETURN_IF_ERROR(options_.interrupted());
      reached = Reach();
      if (absl::IsAlreadyExists(reached))
        return reached;  // it was dropped, and its number given to another
      if (!reached.ok() && Silence() > options_.connect_deadline) {
        return absl::UnavailableError(
            absl::StrCat("the leader is gone (", std::string(ended.message()),
                         "), and this server may not take over: ", std::string(why_not.message())));
      }
    } while (!reached.ok());
    if (may_not) options_.tell(FollowerNews::kFollowsAgain);
  }
}

bool Follower::MayLead() const {
  std::lock_guard lock(mutex_);
  return has_record_ && IsIn(record_.chain(), replica()) && record_.has_model() &&
         complete_ == shards_.size();
}

absl::Status Follower::TryToLead() {
  Chain own;
  {
    std::lock_guard lock(mutex_);
    own = record_.chain();
  }
  // Without a third party its own record settles it.
  auto chains = options_.chains;
  if (chains == nullptr) chains = std::make_shared<RecordedChain>(own);
  PSGD_ASSIGN_OR_RETURN(led_, TakeLead(*chains, own, replica()));
  options_.chains = std::move(chains);
  return absl::OkStatus();
}

Duration Follower::Patience() const {
  std::lock_guard lock(mutex_);
  const auto& members = record_.chain().members();
  const auto self = std::find_if(members.begin(), members.end(), [&](const Chain::Member& member) {
    return member.replica() == replica();
  });
  const auto before = std::max<std::ptrdiff_t>(self - members.begin(), 1);
  return Milliseconds(config().durability().takeover()) * before;
}

absl::Status Follower::FollowConnection() {
  {
    std::lock_guard lock(mutex_);
    has_record_ = broken_ = false;
    complete_ = 0;
  }
  shards_.clear();
  shards_.resize(config().cluster().shards());
  store_.reset();  // or its lock would be in the way
  PSGD_ASSIGN_OR_RETURN(store_,
                        CoordinatorStore::Create(JournalFolder(server_dir_, "coordinator")));
  std::vector<std::unique_ptr<LeaderLink>> links;
  std::vector<std::thread> threads;
  threads.emplace_back([this] { ReadCoordinator(); });
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    FollowerSays::Ask ask = Ask();
    ask.set_shard(s);
    links.push_back(
        std::make_unique<LeaderLink>(leader_, options_.credentials.get(), kConnectPatience, ask));
    threads.emplace_back([this, s, link = links.back().get()] { ReadShard(s, link); });
  }
  log_->info("following {} as server {}", leader_, replica());
  absl::Status ended;
  {
    std::unique_lock lock(mutex_);
    while (!broken_ && ended.ok()) {
      changed_.wait_for(lock, kLook, [&] { return broken_; });
      lock.unlock();
      ended = options_.interrupted();
      const bool silent = Silence() > Patience();
      lock.lock();
      if (silent && ended.ok()) ended = absl::DeadlineExceededError("it is silent");
    }
    if (broken_) ended = why_;
  }
  coordinator_->Cancel();
  for (auto& link : links) link->Cancel();
  for (std::thread& thread : threads) thread.join();
  return ended;
}

Duration Follower::Silence() const {
  std::lock_guard lock(mutex_);
  return SteadyNow() - last_heard_;
}

void Follower::Heard() {
  std::lock_guard lock(mutex_);
  last_heard_ = SteadyNow();
}

void Follower::Broke(absl::Status why) {
  std::lock_guard lock(mutex_);
  if (!broken_) why_ = why.ok() ? absl::CancelledError("it ended") : std::move(why);
  broken_ = true;
  changed_.notify_all();
}

void Follower::ReadCoordinator() {
  LogPart part;
  // From here on it does not lead with what it held before: the leader may go on without it.
  coordinator_->Written(0);
  while (coordinator_->Read(&part)) {
    Heard();
    if (!part.has_record()) continue;
    const absl::Status taken = TakeRecord(part.mutable_record());
    if (!taken.ok()) return Broke(taken);
    coordinator_->Written(part.record().number());
  }
  Broke(coordinator_->Finish());
}

absl::Status Follower::TakeRecord(LogPart::Record* shipped) {
  CoordinatorRecord record;
  record.Swap(shipped->mutable_record());
  if (shipped->same_plan()) {
    std::lock_guard lock(mutex_);
    if (!has_record_) return absl::DataLossError("a record came without the model of the run");
    *record.mutable_model() = record_.model();
    *record.mutable_placement() = record_.placement();
  }
  // As this server would go on from it: it has addresses of its own.
  record.set_replica(replica());
  record.set_host(options_.host);
  record.set_advertise(options_.advertise);
  record.set_control_port(options_.control_port);
  record.mutable_placement()->clear_endpoints();
  PSGD_RETURN_IF_ERROR(store_->Save(record, /*sync=*/false));
  checkpoint_done_ =
      (record.has_under_way() ? record.under_way().id() : record.next_checkpoint()) - 1;
  std::lock_guard lock(mutex_);
  record_ = std::move(record);
  has_record_ = true;
  return absl::OkStatus();
}

void Follower::ReadShard(uint32_t shard, LeaderLink* link) {
  LogPart part;
  ShardPartReader parts;
  while (link->Read(&part)) {
    Heard();
    if (!part.has_shard()) continue;
    const absl::Status taken = TakeShardPart(shard, part.shard(), &parts);
    if (!taken.ok()) return Broke(Annotate(taken, absl::StrCat("shard ", shard)));
    if (part.shard().has_end() || part.shard().has_entries())
      link->Written(shards_[shard].shard->entries());
  }
  Broke(link->Finish());
}

absl::Status Follower::TakeShardPart(uint32_t shard, const ShardPart& part,
                                     ShardPartReader* parts) {
  FollowedShard& followed = shards_[shard];
  PSGD_ASSIGN_OR_RETURN(auto whole, parts->Add(part));
  if (!whole) return absl::OkStatus();
  if (const auto* image = std::get_if<ShardImage>(&*whole)) {
    PSGD_ASSIGN_OR_RETURN(followed.shard, MakeShard(shard, *image));
    std::lock_guard lock(mutex_);
    ++complete_;
    return absl::OkStatus();
  }
  auto* const entries = std::get_if<JournalEntries>(&*whole);
  if (entries == nullptr || followed.shard == nullptr)
    return absl::DataLossError("steps came before an image");
  PSGD_RETURN_IF_ERROR(followed.shard->Follow(entries->first, std::move(entries->entries)));
  followed.shard->CheckpointDone(checkpoint_done_);
  return SaveDueImage(&followed);
}

absl::StatusOr<std::unique_ptr<DurableShard>> Follower::MakeShard(uint32_t shard,
                                                                  const ShardImage& image) {
  RocksJournalOptions rocks;
  rocks.folder = JournalFolder(server_dir_, absl::StrCat("shard-", shard));
  rocks.shard = shard;
  PSGD_ASSIGN_OR_RETURN(auto journal, RocksJournal::Create(std::move(rocks)));
  DurableShardOptions options = DurableShardOptionsOf(config(), shard, run_.starts() + 1);
  options.journal = std::make_unique<ReplicatedJournal>(std::move(journal), shard, followers_);
  return DurableShard::FromImage(std::move(options), image);
}

absl::Status Follower::SaveDueImage(FollowedShard* followed) {
  if (followed->saving.valid()) {
    if (followed->saving.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      return absl::OkStatus();
    }
    const absl::Status saved = followed->saving.get();
    if (!saved.ok()) log_->error("its journal grows: {}", saved.ToString());
    followed->shard->ImageSaved(saved);
  }
  if (auto image = followed->shard->TakeDueImage()) {
    // Acknowledgements of training wait for this thread.
    followed->saving = std::async(
        std::launch::async, [journal = followed->shard->journal(), image = *std::move(image)] {
          return journal->SaveImage(image);
        });
  }
  return absl::OkStatus();
}

FollowedRun Follower::TakeOver() {
  FollowedRun run;
  run.replica = replica();
  run.record = record_;
  run.store = std::move(store_);
  run.followers = followers_;
  run.chains = options_.chains;
  run.led = led_;
  for (FollowedShard& followed : shards_) {
    if (followed.saving.valid()) followed.shard->ImageSaved(followed.saving.get());
    run.shards.push_back(std::move(followed.shard));
  }
  return run;
}

}  // namespace psgd
