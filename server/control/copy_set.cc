#include "server/control/copy_set.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/random_id.h"
#include "net/address.h"
#include "proto/has_journal.h"
#include "server/control/copy_wire.h"
#include "server/durability/rocks.h"

namespace psgd {
namespace {

absl::Status NotHere(uint32_t shard) {
  return UnavailableError("no copy of shard ", shard, " is on this server");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CopySet>> CopySet::Open(CopySetOptions options) {
  std::unique_ptr<CopySet> set(new CopySet(std::move(options)));
  // Otherwise they would stay on the core of the first shard that writes.
  if (set->options_.config.cluster().pin()) StartRocksThreads();
  PSGD_RETURN_IF_ERROR(set->StartTransport());
  PSGD_RETURN_IF_ERROR(set->Recover());
  return set;
}

CopySet::~CopySet() { Stop(); }

absl::Status CopySet::StartTransport() {
  TransportOptions transport;
  transport.queue_bytes = options_.config.cluster().queue();
  transport.send_queue_bytes = kPortQueueBytes;
  transport.log = options_.log;
  transport.security = options_.security;
  PSGD_ASSIGN_OR_RETURN(transport_,
                        MakeTransport(options_.config.cluster().transport(), transport));
  const ClusterConfig::Transport kind = options_.config.cluster().transport();
  if (kind != ClusterConfig::IPC && kind != ClusterConfig::AUTO) return absl::OkStatus();
  // No other process may have the name, or guess it first.
  socket_name_ = absl::StrCat("psgd-", absl::Hex(RandomId()));
  return absl::OkStatus();
}

absl::Status CopySet::Recover() {
  if (!HasJournal(options_.config)) return absl::OkStatus();
  for (uint32_t s = 0; s < static_cast<uint32_t>(options_.config.cluster().shards()); ++s) {
    std::unique_ptr<CopyFolder> folder = FolderOf(s);
    PSGD_RETURN_IF_ERROR(folder->RemoveGone());
    auto place = std::make_shared<CopyPlace>(std::move(folder));
    auto shard = place->Recover();
    PSGD_RETURN_IF_ERROR(
        Annotate(shard.status(), absl::StrCat("shard ", s, " cannot go on from its journal")));
    if (*shard == nullptr) continue;
    const uint64_t entries = (*shard)->entries();
    copies_[s].copy = Make(s, std::move(place), *std::move(shard), TakeCore(s));
    options_.log->info("shard {} went on from the journal, after entry {}", s, entries);
    Reach(options_.failpoint.get(), Failpoint::kShardRecovered);
  }
  return absl::OkStatus();
}

std::string CopySet::ListenAddress(uint32_t shard) const {
  const std::string tcp = absl::StrCat("tcp://", HostPort(options_.host, 0));
  if (socket_name_.empty()) return tcp;
  const std::string ipc = absl::StrCat("ipc://", socket_name_, "-shard-", shard);
  const bool both = options_.config.cluster().transport() == ClusterConfig::AUTO;
  return both ? absl::StrCat(tcp, " ", ipc) : ipc;
}

std::string CopySet::Advertised(const std::string& address) const {
  const size_t end = std::min(address.find(' '), address.size());
  auto tcp = ParseTcpAddress(address.substr(0, end));
  if (options_.advertise.empty() || !tcp.ok()) return address;
  tcp->host = options_.advertise;
  return absl::StrCat(tcp->ToString(), address.substr(end));
}

std::unique_ptr<CopyFolder> CopySet::FolderOf(uint32_t shard) const {
  return std::make_unique<CopyFolder>(CopyFolderOptions{
      options_.config, shard, options_.journal_dir, options_.failpoint, options_.log});
}

std::shared_ptr<CopyThread> CopySet::Make(uint32_t shard, std::shared_ptr<CopyPlace> place,
                                          std::unique_ptr<DurableShard> durable,
                                          std::optional<int> core) {
  CopyThreadOptions options;
  options.core.shard = shard;
  options.core.silence = options_.silence;
  options.core.place = std::move(place);
  options.listen = [this, shard] { return transport_->Listen(ListenAddress(shard)); };
  options.advertised = [this](const std::string& address) { return Advertised(address); };
  options.callbacks = options_.callbacks;
  options.callbacks.on_send = [this](CopySend send) { Send(std::move(send)); };
  options.stays_on = core;
  if (core) options.cores = cores_.order;
  options.log = options_.log;
  return std::make_shared<CopyThread>(std::move(options), std::move(durable));
}

std::optional<int> CopySet::TakeCore(uint32_t shard) {
  if (!options_.config.cluster().pin()) return std::nullopt;
  core_of_.erase(shard);
  std::map<int, int> used;
  for (const auto& [other, core] : core_of_) ++used[core];
  const int core =
      *std::ranges::min_element(cores_.order, {}, [&](int each) { return used[each]; });
  core_of_[shard] = core;
  return core;
}

std::unique_ptr<FollowLink> CopySet::MakeLink(uint32_t shard, uint32_t server,
                                              const std::shared_ptr<CopyThread>& copy) {
  FollowLink::Options options;
  options.call = [this](const std::string& address) {
    return CallLeadingCopy(address, options_.credentials.get(), kPeerPatience);
  };
  options.hello = HelloToLeadingCopy(options_.run_id, server, shard);
  const auto reader = std::make_shared<std::optional<LeadingReader>>();
  options.on_connected = [copy, reader, shard] {
    reader->emplace(shard);  // the last connection may have ended within a message
    copy->OnReached();
  };
  options.on_message = [this, shard, copy, reader](const LeadingSays& says) -> absl::Status {
    PSGD_ASSIGN_OR_RETURN(std::optional<CopyMessage> message, (*reader)->Add(says));
    message ? copy->OnCopy(LeaderOf(shard), *std::move(message)) : copy->OnPart();
    return absl::OkStatus();
  };
  options.leader = absl::StrCat("the leading copy of shard ", shard);
  options.log = options_.log;
  return std::make_unique<FollowLink>(std::move(options));
}

uint32_t CopySet::LeaderOf(uint32_t shard) const {
  std::lock_guard lock(mutex_);
  const auto held = copies_.find(shard);
  return held == copies_.end() ? 0 : held->second.leader;
}

std::shared_ptr<CopyThread> CopySet::Find(uint32_t shard) const {
  std::lock_guard lock(mutex_);
  const auto held = copies_.find(shard);
  return held == copies_.end() ? nullptr : held->second.copy;
}

std::set<uint32_t> CopySet::shards() const {
  std::lock_guard lock(mutex_);
  std::set<uint32_t> shards;
  for (const auto& [shard, held] : copies_) shards.insert(shard);
  return shards;
}

void CopySet::Have(const AssignedCopy& assigned, uint32_t server) {
  const uint32_t shard = assigned.shard();
  std::lock_guard lock(mutex_);
  Held& held = copies_[shard];
  if (held.copy == nullptr) {
    auto place = std::make_shared<CopyPlace>(FolderOf(shard));
    held.copy = Make(shard, std::move(place), nullptr, TakeCore(shard));
  }
  const bool leads = assigned.leader() == server;
  if (!leads) {
    held.leader = assigned.leader();
    if (held.link == nullptr) held.link = MakeLink(shard, server, held.copy);
  }
  if (held.link != nullptr) held.link->SetLeader(leads ? "" : assigned.leader_address());
  held.copy->Have(assigned, server);
}

void CopySet::Drop(uint32_t shard) {
  Held gone;
  {
    std::lock_guard lock(mutex_);
    const auto held = copies_.find(shard);
    if (held == copies_.end()) return;
    gone = std::move(held->second);
    copies_.erase(held);
    core_of_.erase(shard);
    for (auto& [key, follower] : followers_) {
      if (key.first == shard) follower.stream->End();
    }
  }
  gone.link.reset();
  if (gone.copy != nullptr) gone.copy->Stop();
  gone.copy.reset();
  {  // streams of followers have the copy, and with it the journal, until they end
    std::unique_lock lock(mutex_);
    stream_ended_.wait(lock, [&] { return !served_.contains(shard); });
  }
  CopyPlace(FolderOf(shard)).Drop();
}

absl::Status CopySet::Execute(const ShardOrderTo& order) {
  const auto copy = Find(order.shard);
  if (copy == nullptr) return NotHere(order.shard);
  copy->Execute(order.command, order.number, order.epoch);
  return absl::OkStatus();
}

void CopySet::CheckpointDone(uint64_t checkpoint) {
  std::lock_guard lock(mutex_);
  for (auto& [shard, held] : copies_) {
    if (held.copy != nullptr) held.copy->CheckpointDone(checkpoint);
  }
}

absl::Status CopySet::SaveImage(uint32_t shard, const std::shared_ptr<const ShardImage>& image) {
  const auto copy = Find(shard);
  return copy == nullptr ? absl::OkStatus() : copy->SaveImage(image);
}

absl::Status CopySet::Weights(
    uint32_t shard, const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take) {
  const auto copy = Find(shard);
  return copy == nullptr ? NotHere(shard) : copy->Weights(take);
}

absl::Status CopySet::Follow(const FollowingSays::Hello& hello, FollowingStream* stream) {
  if (hello.run_id() != options_.run_id) {
    return absl::FailedPreconditionError("the other server is of another run");
  }
  const uint32_t shard = hello.shard();
  std::shared_ptr<CopyThread> copy;
  TaskQueue queue;
  const std::pair<uint32_t, uint32_t> key(shard, hello.server());
  {
    std::unique_lock lock(mutex_);
    const auto held = copies_.find(shard);
    if (held == copies_.end() || held->second.copy == nullptr) return NotHere(shard);
    copy = held->second.copy;
    served_.insert(shard);
    // The other side began a new stream. What it said over the one before must precede.
    for (auto before = followers_.find(key); before != followers_.end();
         before = followers_.find(key)) {
      before->second.stream->End();
      stream_ended_.wait(lock);
    }
  }
  absl::Status ended = NotHere(shard);
  copy->OnFollowerReached(hello.server(), [&] {
    std::lock_guard lock(mutex_);
    const auto held = copies_.find(shard);
    if (held == copies_.end() || held->second.copy != copy) return;  // it was dropped meanwhile
    Follower& follower = followers_[key];
    if (follower.stream != nullptr) follower.stream->End();  // the other side began a new stream
    follower = {stream, &queue};
    ended = absl::OkStatus();
  });
  FollowingSays says;
  while (ended.ok() && stream->Receive(&says)) {
    auto message = DecodeFollowing(shard, says);
    ended = message.status();
    if (message.ok()) copy->OnCopy(hello.server(), *std::move(message));
  }
  stream->End();
  std::unique_lock lock(mutex_);
  const auto follower = followers_.find(key);
  if (follower != followers_.end() && follower->second.stream == stream) {
    followers_.erase(follower);
    copy->OnFollowerGone(hello.server());  // before the next link of that server
  }
  lock.unlock();
  copy.reset();  // first, because Drop waits for it
  lock.lock();
  served_.erase(served_.find(shard));
  stream_ended_.notify_all();
  return ended;
}

void CopySet::Send(CopySend send) {
  std::lock_guard lock(mutex_);
  const uint32_t shard = send.message.shard;
  const bool leading = std::holds_alternative<CopyMessage::Image>(send.message.what) ||
                       std::holds_alternative<CopyMessage::Steps>(send.message.what);
  if (!leading) {
    const auto held = copies_.find(shard);
    if (held != copies_.end() && held->second.link != nullptr) {
      held->second.link->Send(EncodeFollowing(send.message));
    }
    return;
  }
  const auto follower = followers_.find({shard, send.server});
  if (follower == followers_.end()) return;
  follower->second.queue->Post(
      [stream = follower->second.stream, message = std::move(send.message)] {
        return SendLeading(message, [&](const LeadingSays& says) { return stream->Send(says); });
      });
}

void CopySet::Stop() {
  std::map<uint32_t, Held> copies;
  {
    std::lock_guard lock(mutex_);
    copies.swap(copies_);
    for (auto& [key, follower] : followers_) follower.stream->End();
  }
  for (auto& [shard, held] : copies) {
    held.link.reset();
    if (held.copy != nullptr) held.copy->Stop();
  }
}

}  // namespace psgd
