// The part of ParameterServer that writes down what it does, and goes on from that.
#include <algorithm>
#include <future>

#include "absl/strings/str_cat.h"
#include "server/control/control_service.h"
#include "server/control/parameter_server.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/journal_folder.h"
#include "server/durability/rocks_journal.h"

namespace psgd {

bool ParameterServer::HasJournal() const {
  return options_.config.durability().acknowledge() != DurabilityConfig::MEMORY;
}

bool ParameterServer::SyncsJournal() const {
  return options_.config.durability().acknowledge() == DurabilityConfig::FSYNC;
}

absl::Status ParameterServer::CreateJournal() {
  if (!HasJournal()) return absl::OkStatus();
  MakeKeeper();
  PSGD_RETURN_IF_ERROR(MakeJournalFolder(options_.journal_dir, options_.log));
  PSGD_ASSIGN_OR_RETURN(
      record_store_, CoordinatorStore::Create(JournalFolder(options_.journal_dir, "coordinator")));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::OpenJournal(
    ParameterServerOptions options) {
  if (options.config.durability().acknowledge() == DurabilityConfig::MEMORY) {
    return absl::FailedPreconditionError(
        "this run kept no journal (durability.acknowledge: memory); go on from its last checkpoint "
        "with --resume");
  }
  if (FileExists(JournalFolder(options.journal_dir, ""))) {
    PSGD_RETURN_IF_ERROR(CloseJournalFolder(options.journal_dir, options.log));
  }
  if (CoordinatorIsMissing(options.journal_dir))
    return NoCoordinator(options.journal_dir, options.checkpoint_dir);
  PSGD_ASSIGN_OR_RETURN(auto store,
                        CoordinatorStore::Open(JournalFolder(options.journal_dir, "coordinator")));
  auto loaded = store->Load();
  if (absl::IsNotFound(loaded.status()))
    return NoCoordinator(options.journal_dir, options.checkpoint_dir);
  PSGD_ASSIGN_OR_RETURN(CoordinatorRecord record, std::move(loaded));
  if (!options.recover_here) {
    options.host = record.host();
    options.advertise = record.advertise();
    options.control_port = record.control_port();
  }
  if (record.replica() > 0) options.replica = record.replica();
  if (record.chain().members_size() == 0) {
    return FromRecord(std::move(options), std::move(record), std::move(store), nullptr, LedChain());
  }
  // Whoever reads in the chain where it is finds it there.
  PSGD_ASSIGN_OR_RETURN(auto service, ControlService::Start(options.host, options.control_port,
                                                            options.credentials.get()));
  const std::string address = absl::StrCat(
      options.advertise.empty() ? options.host : options.advertise, ":", service->port());
  options.control_port = service->port();
  PSGD_ASSIGN_OR_RETURN(LedChain led, RecoverLead(options, record.chain(), address));
  PSGD_ASSIGN_OR_RETURN(auto server, FromRecord(std::move(options), std::move(record),
                                                std::move(store), nullptr, std::move(led)));
  server->service_ = std::move(service);
  return server;
}

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::FromRecord(
    ParameterServerOptions options, CoordinatorRecord record,
    std::unique_ptr<CoordinatorStore> store, std::shared_ptr<FollowerSet> followers, LedChain led) {
  record.set_starts(record.starts() + 1);
  std::unique_ptr<ParameterServer> server(new ParameterServer(std::move(options)));
  server->record_store_ = std::move(store);
  server->core_.Restore(record, SteadyNow());
  if ((server->members_ != nullptr) != !record.curve_public().empty()) {
    return absl::FailedPreconditionError(
        record.curve_public().empty()
            ? "this run is not secured: recover it without certificates"
            : "this run is secured: recover it with the same certificates (--tls-dir)");
  }
  server->RestorePasses(record);
  server->followers_ = std::move(followers);
  server->MakeKeeper();
  if (server->keeper_ != nullptr) {
    for (const Chain::Member& member : led.chain.members()) {
      server->next_replica_ = std::max(server->next_replica_, member.replica() + 1);
    }
    server->gathered_ = led.chain.members_size() > 0;
    server->keeper_->GoOn(std::move(led));
  }
  // They are given once all shards are here.
  PSGD_RETURN_IF_ERROR(server->orders_.Restore(record));
  server->recovered_ = std::move(record);
  return server;
}

absl::Status ParameterServer::RecoverShards() {
  struct Recovered {
    absl::StatusOr<std::unique_ptr<DurableShard>> shard;
    std::vector<std::string> notes;
  };
  std::vector<std::future<Recovered>> recovering;
  RestoreOwners();
  const uint32_t starts = NextLife();
  for (int s = 0; s < options_.config.cluster().shards(); ++s) {
    if (moves_.owners()[s] != kThisServer) {
      recovering.emplace_back();
      local_->Forget(s);  // it may have been moved when the server died
      continue;
    }
    recovering.push_back(std::async(std::launch::async, [this, s, starts] {
      std::vector<std::string> notes;
      auto shard = local_->Recover(s, starts, &notes);
      return Recovered{std::move(shard), std::move(notes)};
    }));
  }
  for (uint32_t s = 0; s < recovering.size(); ++s) {
    if (!recovering[s].valid()) {
      shards_.push_back(hosts_.at(moves_.owners()[s])
                            ->Shard(s, recovered_->placement().endpoints(static_cast<int>(s))));
      continue;
    }
    Recovered recovered = recovering[s].get();
    for (const std::string& note : recovered.notes) options_.log->warn("shard {}: {}", s, note);
    if (!recovered.shard.ok()) {
      return Annotate(recovered.shard.status(),
                      absl::StrCat("shard ", s, " cannot go on from its journal"));
    }
    PSGD_RETURN_IF_ERROR(ServeAgain(s, *std::move(recovered.shard)));
    Reach(options_.failpoint.get(), Failpoint::kShardRecovered);
  }
  return WentOn("went on from the journal");
}

absl::Status ParameterServer::ServeAgain(uint32_t shard, std::unique_ptr<DurableShard> durable) {
  std::lock_guard lock(mutex_);
  PSGD_RETURN_IF_ERROR(CheckJournalEnd(*recovered_, shard, durable->entries()));
  PSGD_RETURN_IF_ERROR(orders_.Check(shard, durable->core().last_order()));
  const auto& under_way = core_.checkpoint_under_way();
  if (under_way && shard == 0) PSGD_RETURN_IF_ERROR(store_.Begin(under_way->checkpoint));
  recovered_entries_ += durable->entries();
  // What was cut and perhaps not written to the end.
  auto cut = durable->TakeReplayedCut();
  if (cut && under_way && cut->checkpoint == under_way->checkpoint) {
    to_write_.TryPush({shard, *std::move(cut)});
  } else if (cut) {
    durable->CheckpointDone(cut->checkpoint);
  }
  PSGD_ASSIGN_OR_RETURN(auto served, local_->Serve(shard, std::move(durable)));
  shards_.push_back(std::move(served));
  return absl::OkStatus();
}

absl::Status ParameterServer::WentOn(const std::string& news) {
  std::lock_guard lock(mutex_);
  core_.MoveShards(Endpoints());
  Effects effects;
  effects.news.push_back(absl::StrCat(news, ", at entry ", recovered_entries_,
                                      " of its shards together; start ", recovered_->starts(),
                                      " of this server"));
  const absl::Status applied = Apply(std::move(effects));
  // Its followers, or other servers, are not there yet; the ticker tries again.
  const bool waits = followers_ != nullptr || !hosts_.empty();
  return waits && absl::IsUnavailable(applied) ? absl::OkStatus() : applied;
}

CoordinatorRecord ParameterServer::Record() const {
  CoordinatorRecord record = core_.Save(SteadyNow());
  orders_.Save(&record);
  SavePasses(&record);
  SaveOwners(&record);
  if (keeper_ != nullptr) *record.mutable_chain() = keeper_->chain();
  record.set_starts(recovered_ ? recovered_->starts() : 1);
  record.set_replica(options_.replica);
  record.set_host(options_.host);
  record.set_advertise(options_.advertise);
  const size_t colon = control_address_.rfind(':');
  if (colon != std::string::npos) {
    record.set_control_port(std::atoi(control_address_.c_str() + colon + 1));
  } else {
    record.set_control_port(options_.control_port);
  }
  return record;
}

void ParameterServer::SaveEntries(CoordinatorRecord* record) const {
  for (int s = 0; s < options_.config.cluster().shards(); ++s) {
    const auto shard = local_->Find(static_cast<uint32_t>(s));
    record->add_shard_entries(shard == nullptr ? 0 : shard->written_entries());
  }
}

uint64_t ParameterServer::samples_before() const {
  std::lock_guard lock(mutex_);
  return core_.samples_before();
}

absl::Status ParameterServer::SaveRecord(bool wait_for_disk) {
  if (record_store_ == nullptr || core_.model() == nullptr) return absl::OkStatus();
  if (!deposed_.empty()) return absl::UnavailableError(deposed_);
  CoordinatorRecord record = Record();
  const double seconds = record.seconds_trained();
  record.clear_seconds_trained();  // which always changes
  std::string contents = record.SerializeAsString();
  const bool sync = wait_for_disk && SyncsJournal();
  SaveEntries(&record);  // likewise: they alone are no cause to save it
  // What a report saved without waiting may not be on the disk when a decision leaves that rests on
  // it.
  if (contents == saved_record_ && (saved_synced_ || !sync))
    return ShipRecord(nullptr, wait_for_disk);
  record.set_seconds_trained(seconds);
  Reach(options_.failpoint.get(), Failpoint::kRecordWriting);
  const absl::Status saved = record_store_->Save(record, sync);
  Reach(options_.failpoint.get(), Failpoint::kRecordWritten);
  if (!saved.ok()) {
    saved_record_.clear();  // the store may hold it all the same
    return absl::UnavailableError(
        absl::StrCat("the server cannot write down what it decided, and "
                     "waits: ",
                     std::string(saved.message())));
  }
  saved_record_ = std::move(contents);
  saved_synced_ = sync;
  record.clear_shard_entries();  // a follower's journals may not be as far yet
  return ShipRecord(&record, wait_for_disk);
}

}  // namespace psgd
