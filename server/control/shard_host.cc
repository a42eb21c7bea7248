#include "server/control/shard_host.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "net/wire_format.h"
#include "server/control/host_record.h"
#include "server/durability/journal_folder.h"

namespace psgd {
namespace {

constexpr Duration kReachPatience = std::chrono::seconds(1);
constexpr Duration kReachPeriod = std::chrono::milliseconds(100);
constexpr Duration kTellPeriod = std::chrono::milliseconds(500);
constexpr Duration kSameClock = std::chrono::milliseconds(20);
constexpr size_t kHostWritesWaiting = 1024;

}  // namespace

ShardHost::ShardHost(ShardHostOptions options)
    : options_(std::move(options)),
      coordinator_(options_.coordinator),
      members_(options_.credentials ? std::make_shared<AllowList>() : nullptr),
      to_write_(kHostWritesWaiting) {}

ShardHost::~ShardHost() {
  to_write_.Close();
  if (writer_.joinable()) writer_.join();
  if (set_ != nullptr) set_->Clear();
}

absl::StatusOr<std::unique_ptr<ShardHost>> ShardHost::Connect(ShardHostOptions options) {
  std::unique_ptr<ShardHost> host(new ShardHost(std::move(options)));
  const std::string& earlier = host->options_.earlier_dir;
  if (!earlier.empty() && std::filesystem::exists(HostRecordFile(earlier))) {
    PSGD_ASSIGN_OR_RETURN(host->record_, ReadHostRecord(earlier));
  }
  const Time start = SteadyNow();
  absl::Status reached;
  while (!(reached = host->Reach()).ok()) {
    if (host->Leaves()) return absl::CancelledError("stopped before it held any shard");
    if (!absl::IsUnavailable(reached)) return reached;
    if (SteadyNow() - start > host->options_.connect_deadline) {
      return absl::UnavailableError(
          absl::StrCat("no server coordinates a run at ", host->coordinator_, " (",
                       std::string(reached.message()),
                       "); is ps-server --config running there, and does a firewall let "
                       "it through? Certificates: both sides need some of one authority, or none"));
    }
    std::this_thread::sleep_for(kReachPeriod);
  }
  return host;
}

absl::Status ShardHost::Reach() {
  if (options_.find_coordinator) {
    PSGD_ASSIGN_OR_RETURN(coordinator_, options_.find_coordinator());
  }
  HostSays::Hello hello;
  hello.set_protocol(kProtocolVersion);
  hello.set_name(options_.name);
  hello.set_run_key(record_.run_key());
  hello.set_server(record_.server());
  auto link =
      std::make_shared<HostLink>(coordinator_, options_.credentials.get(), kReachPatience, hello);
  if (!link->connected()) {
    return absl::UnavailableError(absl::StrCat("no answer from ", coordinator_));
  }
  HostTold told;
  if (!link->Read(&told)) return link->Finish();
  if (!told.has_begin()) return absl::InternalError("the coordinator did not say what run it is");
  begin_ = told.begin();
  const Duration ahead = Time(begin_.clock_ns()) - SteadyNow();
  clock_ahead_ = ahead > -kSameClock && ahead < kSameClock ? Duration(0) : ahead;
  record_.set_run_key(begin_.run_key());
  record_.set_server(begin_.server());
  for (const CoordinatorRecord::Pass& pass : begin_.passes()) Admit(pass);
  std::lock_guard lock(mutex_);
  link_ = std::move(link);
  return absl::OkStatus();
}

void ShardHost::Admit(const CoordinatorRecord::Pass& pass) {
  if (members_ == nullptr) return;
  members_->Admit(pass.key().worker(), pass.key().incarnation(),
                  {.curve_key = pass.curve_key(), .token = pass.token()});
}

absl::Status ShardHost::OpenShards() {
  if (set_ != nullptr) return absl::OkStatus();
  ShardSetOptions set;
  set.config = config();
  set.host = options_.host;
  set.advertise = options_.advertise;
  set.journal_dir = server_dir_;
  set.failpoint = options_.failpoint;
  for (int i = 0; i < record_.shards_size(); ++i)
    set.known[record_.shards(i)] = record_.addresses(i);
  if (members_ != nullptr) {
    auto security = std::make_shared<TransportSecurity>();
    security->credentials = options_.credentials;
    security->curve = {begin_.curve_public(), begin_.curve_secret()};
    security->allowed = members_;
    set.security = std::move(security);
  }
  set.callbacks.on_cut = [this](uint32_t shard, ShardCut cut) {
    auto kept = std::make_shared<const ShardCut>(std::move(cut));
    std::lock_guard lock(mutex_);
    cuts_[shard] = kept;
    to_write_.TryPush({shard, std::move(kept)});
  };
  set.callbacks.on_image = [this](uint32_t shard, ShardImage image) {
    to_write_.TryPush({shard, std::move(image)});
  };
  set.callbacks.on_quarantine = [this](const QuarantinedWorker& worker) {
    HostSays says;
    *says.mutable_quarantined()->mutable_key() = worker.key;
    says.mutable_quarantined()->set_why(worker.why);
    Say(says);
  };
  if (begin_.trace_steps() > 0) {
    set.callbacks.on_spans = [this](const std::vector<TraceSpan>& spans) {
      for (const TraceSpan& span : spans) {
        HostSays says;
        *says.mutable_span() = span;
        says.mutable_span()->set_start_ns(span.start_ns() + clock_ahead_.count());
        Say(says);
      }
    };
    set.callbacks.trace_steps = begin_.trace_steps();
  }
  set.log = log_;
  PSGD_ASSIGN_OR_RETURN(set_, ShardSet::Open(std::move(set)));
  PSGD_RETURN_IF_ERROR(RecoverShards());
  PSGD_RETURN_IF_ERROR(SaveRecord());  // whose directory it is, before anything else is in it
  writer_ = std::thread([this] { WriteLoop(); });
  return absl::OkStatus();
}

absl::Status ShardHost::RecoverShards() {
  // What lived in memory alone is lost, which the coordinator sees.
  if (config().durability().acknowledge() == DurabilityConfig::MEMORY) record_.clear_shards();
  for (const uint32_t shard : record_.shards()) {
    std::vector<std::string> notes;
    auto durable = set_->Recover(shard, begin_.starts(), &notes);
    for (const std::string& note : notes) log_->warn("shard {}: {}", shard, note);
    PSGD_RETURN_IF_ERROR(Annotate(durable.status(),
                                  absl::StrCat("shard ", shard, " cannot go on from its journal")));
    if (auto cut = (*durable)->TakeReplayedCut()) {
      cuts_[shard] = std::make_shared<const ShardCut>(*std::move(cut));
    }
    const uint64_t entries = (*durable)->entries();
    PSGD_ASSIGN_OR_RETURN(shards_[shard],
                          set_->Serve(shard, *std::move(durable), /*stands_still=*/true));
    log_->info("shard {} can go on from its journal, at entry {}", shard, entries);
  }
  return absl::OkStatus();
}

absl::Status ShardHost::SaveRecord() {
  record_.clear_shards();
  record_.clear_addresses();
  {
    std::lock_guard lock(mutex_);
    for (const auto& [shard, server] : shards_) {
      record_.add_shards(shard);
      record_.add_addresses(server->address());
    }
  }
  return WriteFileAtomically(HostRecordFile(server_dir_), record_.SerializeAsString());
}

absl::Status ShardHost::Serve(const std::string& server_dir, Log log) {
  server_dir_ = server_dir;
  log_ = std::move(log);
  PSGD_RETURN_IF_ERROR(MakeJournalFolder(server_dir_, log_));
  Time last_there = SteadyNow();
  while (true) {
    const absl::Status ended = ServeConnection();
    if (over_) return absl::OkStatus();
    if (Leaves() && ShardsHere() == 0)
      return absl::CancelledError("its shards went to other servers");
    if (absl::IsDataLoss(ended) || absl::IsFailedPrecondition(ended)) return ended;
    if (options_.stops() > 1) {
      return absl::CancelledError("stopped at once; the run waits for the shards that it holds");
    }
    log_->warn("the coordinator at {} is gone: {}", coordinator_, ended.ToString());
    last_there = SteadyNow();
    while (!Reach().ok()) {
      if (options_.stops() > 0 || SteadyNow() - last_there > options_.connect_deadline) {
        return absl::UnavailableError(
            absl::StrCat("the coordinator is gone (", std::string(ended.message()),
                         "), and has not come back. Start it "
                         "again with  ps-server --recover RUN_DIR, and this one as before: it goes "
                         "on with its shards"));
      }
      std::this_thread::sleep_for(kReachPeriod);
    }
  }
}

size_t ShardHost::ShardsHere() const {
  std::lock_guard lock(mutex_);
  return shards_.size();
}

std::shared_ptr<HostLink> ShardHost::Link() const {
  std::lock_guard lock(mutex_);
  return link_;
}

bool ShardHost::Say(const HostSays& says) { return Link()->Write(says); }

absl::Status ShardHost::ServeConnection() {
  PSGD_RETURN_IF_ERROR(OpenShards());
  HostSays says;
  HostSays::Ready* const ready = says.mutable_ready();
  std::map<uint32_t, std::shared_ptr<const ShardCut>> cuts;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [shard, server] : shards_) {
      ready->add_shards(shard);
      ready->add_addresses(server->address());
    }
    cuts = cuts_;
  }
  Say(says);
  for (const auto& [shard, cut] : cuts) {
    if (cut->checkpoint == begin_.checkpoint()) {
      to_write_.TryPush({shard, cut});
    } else {
      HostTold::Call done;
      done.set_shard(shard);
      done.set_checkpoint_done(cut->checkpoint);
      Carry(done);
    }
  }
  log_->info("holds shards for {} as server {}", coordinator_, server());
  std::atomic<bool> ended{false};
  std::thread teller([&] {
    while (!ended) {
      TellOfShards();
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kTellPeriod, [&] { return ended.load(); });
    }
  });
  HostTold told;
  absl::Status broken;
  const std::shared_ptr<HostLink> link = Link();
  while (broken.ok() && link->Read(&told)) {
    if (told.has_call()) Carry(told.call());
    if (told.has_admit()) Admit(told.admit());
    if (told.has_remove() && members_ != nullptr) {
      members_->Remove(told.remove().worker(), told.remove().incarnation());
    }
    if (told.over()) over_ = true;
    if (!told.failed().empty()) broken = absl::DataLossError(told.failed());
    if (over_ || !broken.ok()) break;
    if (told.has_part()) broken = arriving_[told.part().shard()].Add(told.part()).status();
  }
  link->Cancel();
  {
    std::lock_guard lock(mutex_);
    ended = true;
    changed_.notify_all();
  }
  teller.join();
  return broken.ok() ? link->Finish() : broken;
}

void ShardHost::TellOfShards() {
  std::map<uint32_t, std::shared_ptr<ShardServer>> shards;
  {
    std::lock_guard lock(mutex_);
    shards = shards_;
  }
  for (const auto& [index, shard] : shards) {
    HostSays says;
    *says.mutable_held()->mutable_status() = shard->Status();
    says.mutable_held()->set_written_order(shard->written_order());
    Say(says);
  }
  if (!Leaves()) return;
  HostSays says;
  says.set_leaving(true);
  Say(says);
  if (shards.empty() || options_.stops() > 1) Link()->Cancel();
}

bool ShardHost::SayPart(HostLink& link, const ShardPart& part) {
  HostSays says;
  *says.mutable_part() = part;
  return link.Write(says);
}

void ShardHost::WriteLoop() {
  while (auto next = to_write_.Pop()) {
    if (const auto* cut = std::get_if<std::shared_ptr<const ShardCut>>(&next->what)) {
      const auto link = Link();
      (void)SendCut(next->shard, **cut,
                    [&](const ShardPart& part) { return SayPart(*link, part); });
      continue;
    }
    if (auto* given = std::get_if<Given>(&next->what)) {
      const auto say = [&](const ShardPart& part) { return SayPart(*given->link, part); };
      if (SendImage(next->shard, given->image, say)) given->link->Write(given->answer);
      continue;
    }
    const auto shard = set_->Find(next->shard);
    if (shard == nullptr) continue;
    const absl::Status saved = shard->SaveImage(std::get<ShardImage>(next->what));
    if (!saved.ok()) {
      log_->error("shard {}: its journal grows, since no image of it can be written: {}",
                  next->shard, saved.ToString());
    }
  }
}

}  // namespace psgd
