// The part of ParameterServer that writes down what it does, and goes on from that.
#include <algorithm>
#include <filesystem>
#include <future>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "server/checkpoint_files.h"
#include "server/parameter_server.h"
#include "server/rocks_journal.h"

namespace psgd {

bool ParameterServer::HasJournal() const {
  return options_.config.durability().acknowledge() != DurabilityConfig::MEMORY;
}

bool ParameterServer::SyncsJournal() const {
  return options_.config.durability().acknowledge() == DurabilityConfig::FSYNC;
}

std::string ParameterServer::JournalFolder(const ParameterServerOptions& options,
                                           const std::string& part) {
  return absl::StrCat(options.checkpoint_dir, "/journal/", part);
}

absl::Status ParameterServer::CreateJournal() {
  if (!HasJournal()) return absl::OkStatus();
  // Updates of a run are its owner's alone, and so are the passes of a secured one.
  PSGD_RETURN_IF_ERROR(MakeFolders(JournalFolder(options_, "")));
  std::error_code failed;
  std::filesystem::permissions(JournalFolder(options_, ""), std::filesystem::perms::owner_all, failed);
  if (failed) return FileError("close to others", JournalFolder(options_, ""), failed.value());
  PSGD_ASSIGN_OR_RETURN(record_store_,
                        CoordinatorStore::Create(JournalFolder(options_, "coordinator")));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::OpenJournal(
    ParameterServerOptions options) {
  if (options.config.durability().acknowledge() == DurabilityConfig::MEMORY) {
    return absl::FailedPreconditionError(
        "this run kept no journal (durability.acknowledge: memory); go on from its last checkpoint "
        "with --resume");
  }
  PSGD_ASSIGN_OR_RETURN(auto store,
                        CoordinatorStore::Open(JournalFolder(options, "coordinator")));
  PSGD_ASSIGN_OR_RETURN(CoordinatorRecord record, store->Load());
  options.host = record.host();
  options.advertise = record.advertise();
  options.control_port = record.control_port();
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
  server->recovered_ = std::move(record);
  return server;
}

absl::Status ParameterServer::RecoverShards() {
  struct Recovered {
    absl::StatusOr<std::unique_ptr<DurableShard>> shard;
    std::vector<std::string> notes;
  };
  std::vector<std::future<Recovered>> recovering;
  for (int s = 0; s < options_.config.cluster().shards(); ++s) {
    recovering.push_back(std::async(std::launch::async, [this, s] {
      std::vector<std::string> notes;
      auto shard = MakeShard(s, &notes);
      return Recovered{std::move(shard), std::move(notes)};
    }));
  }
  std::lock_guard lock(mutex_);
  const auto& under_way = core_.checkpoint_under_way();
  if (under_way) PSGD_RETURN_IF_ERROR(store_.Begin(under_way->checkpoint));
  uint64_t entries = 0;
  for (uint32_t s = 0; s < recovering.size(); ++s) {
    Recovered recovered = recovering[s].get();
    for (const std::string& note : recovered.notes) options_.log->warn("shard {}: {}", s, note);
    if (!recovered.shard.ok()) {
      return Annotate(recovered.shard.status(),
                      absl::StrCat("shard ", s, " cannot go on from its journal"));
    }
    entries += (*recovered.shard)->entries();
    // What was cut and perhaps not written to the end.
    auto cut = (*recovered.shard)->TakeReplayedCut();
    if (cut && under_way && cut->checkpoint == under_way->checkpoint) {
      to_write_.TryPush({s, *std::move(cut)});
    } else if (cut) {
      (*recovered.shard)->CheckpointDone(cut->checkpoint);
    }
    PSGD_RETURN_IF_ERROR(Serve(s, *std::move(recovered.shard)));
    Reach(options_.failpoint.get(), Failpoint::kShardRecovered);
  }
  PSGD_RETURN_IF_ERROR(orders_.Restore(*recovered_));
  Effects effects;
  effects.news.push_back(absl::StrCat("went on from the journal, at entry ", entries,
                                      " of its shards together; start ", recovered_->starts(),
                                      " of this server"));
  return Apply(std::move(effects));
}

CoordinatorRecord ParameterServer::Record() const {
  CoordinatorRecord record = core_.Save(SteadyNow());
  orders_.Save(&record);
  SavePasses(&record);
  record.set_starts(recovered_ ? recovered_->starts() : 1);
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

absl::Status ParameterServer::SaveRecord(bool wait_for_disk) {
  if (record_store_ == nullptr || core_.model() == nullptr) return absl::OkStatus();
  CoordinatorRecord record = Record();
  const double seconds = record.seconds_trained();
  record.clear_seconds_trained();  // which always changes
  std::string contents = record.SerializeAsString();
  if (contents == saved_record_) return absl::OkStatus();
  record.set_seconds_trained(seconds);
  Reach(options_.failpoint.get(), Failpoint::kRecordWriting);
  const absl::Status saved = record_store_->Save(record, wait_for_disk && SyncsJournal());
  Reach(options_.failpoint.get(), Failpoint::kRecordWritten);
  if (!saved.ok()) {
    return absl::UnavailableError(absl::StrCat("the server cannot write down what it decided, and "
                                               "waits: ", std::string(saved.message())));
  }
  saved_record_ = std::move(contents);
  return absl::OkStatus();
}

}  // namespace psgd
