// The part of ParameterServer that spreads shards over other servers: docs/architecture.md,
// "Several servers".
#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/names.h"
#include "common/random_id.h"
#include "net/wire_format.h"
#include "server/control/parameter_server.h"
#include "server/coordinator/access.h"
#include "server/durability/journal_folder.h"

namespace psgd {
namespace {

constexpr size_t kMostHosts = 255;
constexpr Duration kMoveRetry = std::chrono::milliseconds(50);

}  // namespace

void ParameterServer::RestoreOwners() {
  std::vector<uint32_t> owners(options_.config.cluster().shards(), kThisServer);
  run_key_ = RandomId();
  if (recovered_ && recovered_->run_key() != 0) {
    run_key_ = recovered_->run_key();
    owners.assign(recovered_->owners().begin(), recovered_->owners().end());
    next_server_ = recovered_->next_server();
    lives_ = recovered_->lives();
    gathered_servers_ = true;
  }
  moves_ = ShardMoves(owners);
  for (const uint32_t owner : owners) {
    if (owner != kThisServer) HostOf(owner);
  }
}

void ParameterServer::SaveOwners(CoordinatorRecord* record) const {
  record->set_run_key(run_key_);
  record->mutable_owners()->Assign(moves_.owners().begin(), moves_.owners().end());
  record->set_next_server(next_server_);
  record->set_lives(lives_);
}

uint32_t ParameterServer::NextLife() { return (recovered_ ? recovered_->starts() : 1) + ++lives_; }

std::function<void(std::vector<TraceSpan>)> ParameterServer::SpansOf(uint32_t server) {
  if (options_.trace_steps == 0 || !options_.on_spans) return nullptr;
  return
      [this, server](std::vector<TraceSpan> spans) { options_.on_spans(server, std::move(spans)); };
}

std::shared_ptr<RemoteHost> ParameterServer::HostOf(uint32_t server) {
  std::shared_ptr<RemoteHost>& host = hosts_[server];
  if (host != nullptr) return host;
  RemoteHostCallbacks callbacks;
  callbacks.on_cut = [this](uint32_t shard, ShardCut cut) {
    to_write_.TryPush({shard, std::move(cut)});
  };
  callbacks.on_quarantine = [this](QuarantinedWorker worker) {
    quarantined_.TryPush(std::move(worker));
  };
  callbacks.on_spans = SpansOf(server);
  callbacks.on_leaving = [this] {
    server_leaves_ = true;  // it says so again, should the mover just have looked
    changed_.notify_all();
  };
  host = std::make_shared<RemoteHost>(server, std::move(callbacks), options_.log);
  return host;
}

absl::StatusOr<uint32_t> ParameterServer::CheckHost(const HostSays::Hello& hello) {
  if (hello.protocol() != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server speaks protocol ", hello.protocol(), ", this one ",
                     kProtocolVersion, "; install the same version of psgd on both"));
  }
  PSGD_RETURN_IF_ERROR(CheckPeerName("the server's name", hello.name()));
  if (followers_ != nullptr) {
    return absl::FailedPreconditionError(
        "this run is replicated by servers that hold all of it (durability.acknowledge: "
        "replicated); "
        "follow it with --follow, or spread a run with acknowledge: journal");
  }
  if (hello.run_key() != 0 && hello.run_key() != run_key_) {
    return absl::FailedPreconditionError(
        "the run directory of that server is of another run; give it another --run-dir");
  }
  // Until then its last orders wait for it.
  if (core_.over() && !orders_.pending()) return absl::FailedPreconditionError("the run is over");
  if (hello.server() != 0) return hello.server();
  const auto connected = std::count_if(hosts_.begin(), hosts_.end(),
                                       [](const auto& host) { return host.second->connected(); });
  if (static_cast<size_t>(connected) >= kMostHosts) {
    return absl::ResourceExhaustedError("this run has too many servers");
  }
  return next_server_++;
}

absl::Status ParameterServer::Host(const HostSays::Hello& hello, HostStream* stream) {
  HostTold told;
  HostTold::Begin* const begin = told.mutable_begin();
  std::shared_ptr<RemoteHost> host;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::UnavailableError("the server ends");
    PSGD_ASSIGN_OR_RETURN(const uint32_t server, CheckHost(hello));
    host = HostOf(server);
    *begin->mutable_config() = options_.config;
    begin->set_run_key(run_key_);
    begin->set_server(server);
    begin->set_starts(NextLife());
    begin->set_trace_steps(options_.on_spans ? options_.trace_steps : 0);
    if (const auto& under_way = core_.checkpoint_under_way())
      begin->set_checkpoint(under_way->checkpoint);
    begin->set_clock_ns(SteadyNow().count());
    if (members_ != nullptr) {
      begin->set_curve_public(curve_.public_key);
      begin->set_curve_secret(curve_.secret_key);
      for (const auto& [worker, pass] : passes_) *begin->add_passes() = pass;
    }
  }
  HostSays says;
  if (!stream->Send(told) || !stream->Receive(&says) || !says.has_ready() ||
      says.ready().shards_size() != says.ready().addresses_size()) {
    return absl::CancelledError("the server is gone");
  }
  // Answers are heard from now on: what it has missed is told to it at once.
  const absl::Status begun = host->Serve(hello.name(), says.ready(), stream, [&] {
    return TakeBack(begin->server(), host, says.ready());
  });
  {
    std::lock_guard lock(mutex_);
    if (!stopping_ && !core_.over()) options_.log->warn("server {} is away", begin->server());
    moves_.Away(begin->server());
    Spread();
  }
  return begun;
}

absl::Status ParameterServer::TakeBack(uint32_t server, const std::shared_ptr<RemoteHost>& host,
                                       const HostSays::Ready& ready) {
  const std::set<uint32_t> has(ready.shards().begin(), ready.shards().end());
  std::lock_guard lock(mutex_);
  const ShardMoves::CameBack back = moves_.Back(server, has);
  if (!back.lost.empty()) {
    Lose(absl::StrCat("server ", server, " came back without ", back.lost.size(),
                      " of the shards that it "
                      "held (the first is ",
                      back.lost[0], "): ",
                      HasJournal() ? "was it started with another --run-dir, or its disk lost?"
                                   : "durability.acknowledge: memory keeps them nowhere else; "
                                     "journal does"));
    return absl::DataLossError("it does not have all the shards that it held");
  }
  // Whoever joined since it was told of all.
  for (const auto& [worker, pass] : passes_) host->Admit(pass);
  for (const uint32_t shard : back.drop) host->Drop(shard);
  for (const uint32_t shard : back.go_on) host->GoOn(shard);
  Effects effects;
  effects.news.push_back(absl::StrCat("server ", server, " is here, with ", has.size(), " shards"));
  if (core_.placement() != nullptr) core_.MoveShards(Endpoints());
  Spread();
  // What it has missed.
  const absl::Status applied = Apply(std::move(effects));
  if (!applied.ok() && !absl::IsUnavailable(applied)) return applied;
  return absl::OkStatus();
}

void ParameterServer::Lose(const std::string& why) {
  DrainRequest failed;
  failed.set_reason(why);
  failed.set_failed(true);
  Effects end;
  core_.Drain(failed, &end);
  (void)Apply(std::move(end));  // what is to be said; there is nobody to carry out an order
  lost_ = true;
  changed_.notify_all();
}

bool ParameterServer::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

bool ParameterServer::WaitsForServers(std::string* reason) {
  if (gathered_servers_ || core_.over()) return false;
  const auto here = 1 + std::count_if(hosts_.begin(), hosts_.end(),
                                      [](const auto& host) { return host.second->connected(); });
  const auto missing = options_.config.cluster().servers() - here;
  if (missing > 0) {
    *reason = absl::StrCat("waiting for ", missing,
                           " more servers (cluster.servers): ps-server --join ", control_address_);
    return true;
  }
  if (!moves_.settled()) {
    *reason = absl::StrCat("spreading the shards over ", here, " servers");
    return true;
  }
  gathered_servers_ = true;
  return false;
}

void ParameterServer::Spread() {
  std::vector<uint32_t> servers = {kThisServer};
  const std::vector<uint32_t>& owners = moves_.owners();
  for (const auto& [server, host] : hosts_) {
    const bool holds = std::find(owners.begin(), owners.end(), server) != owners.end();
    if (!host->leaving() && (host->connected() || holds)) servers.push_back(server);
  }
  moves_.Spread(servers);
  changed_.notify_all();
}

absl::StatusOr<RebalanceReply> ParameterServer::Rebalance(const RebalanceRequest& request) {
  std::lock_guard lock(mutex_);
  if (request.moves().empty()) Spread();
  std::vector<uint32_t> target = moves_.target();
  for (const RebalanceRequest::Move& move : request.moves()) {
    if (move.shard() >= target.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no shard ", move.shard(), "; they are 0 to ", target.size() - 1));
    }
    const auto host = hosts_.find(move.server());
    if (move.server() != kThisServer && (host == hosts_.end() || !host->second->connected())) {
      return absl::NotFoundError(absl::StrCat("server ", move.server(),
                                              " is not here; ps-ctl status "
                                              "shows those that are"));
    }
    target[move.shard()] = move.server();
  }
  RebalanceReply reply;
  reply.mutable_owners()->Assign(target.begin(), target.end());
  moves_.SetTarget(std::move(target));
  changed_.notify_all();
  return reply;
}

void ParameterServer::MoveLoop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (server_leaves_.exchange(false)) Spread();
    const auto due = [&] {
      return moves_.under_way() || (!moves_.settled() && core_.model() != nullptr && !core_.over());
    };
    if (!due()) {
      changed_.wait(lock, [&] { return stopping_ || server_leaves_ || due(); });
      continue;
    }
    const auto step = moves_.Next(!orders_.pending() && !core_.checkpoint_under_way());
    if (!step) {
      changed_.wait_for(lock, kMoveRetry, [&] { return stopping_; });
      continue;
    }
    absl::Status status;
    if (step->what == ShardMoves::Do::kWriteDown) {
      status = WriteDownMove(*step);
    } else {
      lock.unlock();
      status = CarryOut(*step);
      lock.lock();
    }
    const auto ended = moves_.Done(status, moving_.round);
    if (ended) Tell(*ended);
    const bool waits =
        ended ? absl::IsUnavailable(ended->status) : step->last && !moving_.round.stands_still;
    if (waits) changed_.wait_for(lock, kMoveRetry, [&] { return stopping_; });
  }
}

absl::Status ParameterServer::CarryOut(const ShardMoves::Step& step) {
  const std::shared_ptr<ShardHandle> holder = Shards()[step.shard];
  switch (step.what) {
    case ShardMoves::Do::kGive: {
      moving_ = MovingShard();
      moving_.start = SteadyNow();
      PSGD_ASSIGN_OR_RETURN(moving_.image, holder->Give());
      moving_.followed = moving_.image.record.entry();
      break;
    }
    case ShardMoves::Do::kTake: {
      PSGD_ASSIGN_OR_RETURN(moving_.placed, Place(step.shard, step.server, moving_.image));
      moving_.image = {};  // or what the shard changes would still be copied
      break;
    }
    case ShardMoves::Do::kFollow: {
      if (step.last) moving_.stood_still = SteadyNow();
      PSGD_ASSIGN_OR_RETURN(const GivenSteps given, holder->GiveSince(moving_.followed, step.last));
      PSGD_RETURN_IF_ERROR(moving_.placed->Follow(given));
      moving_.followed = given.steps.last();
      moving_.round = {given.bytes(), given.stands_still};
      if (!given.stands_still) break;
      Reach(options_.failpoint.get(), Failpoint::kShardPlaced);
      break;
    }
    case ShardMoves::Do::kWriteDown:
      break;
    case ShardMoves::Do::kGoOn:
      holder->KeepOn();
      moving_.image = {};
      moving_.placed.reset();
      moving_.went_on = SteadyNow();
      break;
    case ShardMoves::Do::kDrop:
      DropFrom(step.shard, step.server);
      break;
  }
  return absl::OkStatus();
}

absl::Status ParameterServer::WriteDownMove(const ShardMoves::Step& step) {
  if (step.server != kThisServer && !hosts_.at(step.server)->connected()) {
    return absl::UnavailableError(absl::StrCat("server ", step.server, " is away"));
  }
  const std::shared_ptr<ShardHandle> before = Shards()[step.shard];
  SetShard(step.shard, moving_.placed);
  // Workers are told once it is written down who holds it.
  const absl::Status saved = SaveRecord();
  if (!saved.ok()) SetShard(step.shard, before);
  if (saved.ok()) Reach(options_.failpoint.get(), Failpoint::kShardMoved);
  return saved;
}

void ParameterServer::SetShard(uint32_t shard, std::shared_ptr<ShardHandle> handle) {
  {
    std::lock_guard lock(shards_mutex_);
    shards_[shard] = std::move(handle);
  }
  core_.MoveShards(Endpoints());
}

void ParameterServer::Tell(const ShardMoves::Ended& ended) {
  if (absl::IsUnavailable(ended.status)) return;
  if (!ended.status.ok()) {
    options_.log->error("shard {} stays where it is: {}", ended.shard, ended.status.ToString());
    return;
  }
  Tell(absl::StrFormat(
      "shard %d moved from server %d to server %d in %.3f s, of which it stood still for %.3f s",
      ended.shard, ended.from, ended.to, Seconds(SteadyNow() - moving_.start),
      Seconds(moving_.went_on - moving_.stood_still)));
}

absl::StatusOr<std::shared_ptr<ShardHandle>> ParameterServer::Place(uint32_t shard, uint32_t server,
                                                                    const ShardImage& image) {
  std::shared_ptr<RemoteHost> host;
  uint32_t life;
  {
    std::lock_guard lock(mutex_);
    life = NextLife();
    if (server != kThisServer) host = hosts_.at(server);
  }
  if (host != nullptr) return host->Take(shard, image, life);
  PSGD_ASSIGN_OR_RETURN(auto durable, local_->FromImage(image, shard, life));
  return local_->Serve(shard, std::move(durable), /*stands_still=*/true);
}

void ParameterServer::DropFrom(uint32_t shard, uint32_t server) {
  if (server == kThisServer) return local_->Drop(shard);
  std::shared_ptr<RemoteHost> host;
  {
    std::lock_guard lock(mutex_);
    host = hosts_.at(server);
  }
  host->Drop(shard);
}

void ParameterServer::EndHosts() {
  std::map<uint32_t, std::shared_ptr<RemoteHost>> hosts;
  {
    std::lock_guard lock(mutex_);
    hosts = hosts_;
  }
  for (const auto& [server, host] : hosts) host->End(core_.over());
}

}  // namespace psgd
