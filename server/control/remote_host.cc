#include "server/control/remote_host.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/shard/shard_order.h"

namespace psgd {
namespace {
// An order is a few bytes; an image may be gigabytes.
constexpr Duration kOrderPatience = std::chrono::seconds(1);
constexpr Duration kImagePatience = std::chrono::minutes(10);
constexpr Duration kGoodbye = std::chrono::seconds(2);
}  // namespace

// A shard of it.
class RemoteShard final : public ShardHandle {
 public:
  RemoteShard(std::shared_ptr<RemoteHost> host, uint32_t shard)
      : host_(std::move(host)), shard_(shard) {}

  std::string address() const override { return Known().address; }
  uint64_t written_order() const override { return Known().written_order; }

  std::future<absl::Status> Execute(const ShardCommand& command, uint64_t number) override {
    HostTold::Call call = ToShard();
    *call.mutable_order() = ToOrderForShard(number, command);
    auto started = host_->Start(std::move(call));
    return std::async(std::launch::deferred, [host = host_, id = started.first,
                                              answer = std::move(started.second)]() mutable {
      return host->Wait(id, std::move(answer), kOrderPatience).status();
    });
  }

  void CheckpointDone(uint64_t checkpoint) override {
    HostTold::Call call = ToShard();
    call.set_checkpoint_done(checkpoint);
    host_->Tell(std::move(call));
  }

  absl::Status Weights(
      const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take) override {
    HostTold::Call call = ToShard();
    call.mutable_weights();
    RemoteHost::Values values;
    PSGD_RETURN_IF_ERROR(host_->Ask(std::move(call), kImagePatience, &values).status());
    for (const auto& [slice, bytes] : values) PSGD_RETURN_IF_ERROR(take(slice, bytes));
    return absl::OkStatus();
  }

  ShardStatus Status() override {
    ShardStatus status = Known().status;
    status.set_shard(shard_);
    status.set_endpoint(address());
    status.set_server(host_->server_);
    return status;
  }

  absl::StatusOr<ShardImage> Give() override {
    HostTold::Call call = ToShard();
    call.mutable_give();
    PSGD_RETURN_IF_ERROR(host_->Ask(std::move(call), kImagePatience).status());
    std::lock_guard lock(host_->mutex_);
    return host_->shards_[shard_].arriving.TakeImage();
  }

  absl::StatusOr<GivenSteps> GiveSince(uint64_t entry, bool last) override {
    HostTold::Call call = ToShard();
    call.mutable_since()->set_entry(entry);
    call.mutable_since()->set_last(last);
    PSGD_ASSIGN_OR_RETURN(const HostSays::Answer answer,
                          host_->Ask(std::move(call), kImagePatience));
    std::lock_guard lock(host_->mutex_);
    JournalEntries steps = host_->shards_[shard_].arriving.TakeEntries();
    if (steps.entries.empty()) steps.first = entry + 1;
    return GivenSteps{std::move(steps), answer.checkpoint_done(), answer.stands_still()};
  }

  absl::Status Follow(const GivenSteps& given) override { return host_->Follow(shard_, given); }

  // One that is away is told when it comes back.
  void KeepOn() override { host_->GoOn(shard_); }

 private:
  HostTold::Call ToShard() const {
    HostTold::Call call;
    call.set_shard(shard_);
    return call;
  }
  RemoteHost::Known Known() const {
    std::lock_guard lock(host_->mutex_);
    return host_->shards_[shard_].known;
  }

  const std::shared_ptr<RemoteHost> host_;
  const uint32_t shard_;
};

std::shared_ptr<ShardHandle> RemoteHost::Shard(uint32_t shard, const std::string& address) {
  std::lock_guard lock(mutex_);
  shards_[shard].known.address = address;
  return std::make_shared<RemoteShard>(shared_from_this(), shard);
}

absl::Status RemoteHost::Away() const {
  return absl::UnavailableError(absl::StrCat("server ", server_,
                                             name_.empty() ? "" : absl::StrCat(" (", name_, ")"),
                                             ", which holds shards of this run, is away; the run "
                                             "goes on once it is back (ps-server --join)"));
}

void RemoteHost::Resolve(absl::StatusOr<HostSays::Answer> answer, Pending* pending) {
  if (!std::exchange(pending->answered, true)) pending->answer.set_value(std::move(answer));
}

bool RemoteHost::Send(const HostTold& told) {
  std::lock_guard one_at_a_time(sending_);
  HostStream* stream;
  {
    std::lock_guard lock(mutex_);
    stream = stream_;
  }
  return stream != nullptr && stream->Send(told);
}

bool RemoteHost::SendPart(const ShardPart& part) {
  HostTold told;
  *told.mutable_part() = part;
  return Send(told);
}

std::pair<uint64_t, RemoteHost::Answer> RemoteHost::Start(HostTold::Call call) {
  uint64_t id;
  Answer answer;
  {
    std::lock_guard lock(mutex_);
    id = next_call_++;
    Pending& pending = pending_[id];
    pending.shard = call.shard();
    answer = pending.answer.get_future();
    if (stream_ == nullptr || silent_) {
      Resolve(Away(), &pending);
      return {id, std::move(answer)};
    }
  }
  call.set_call(id);
  HostTold told;
  *told.mutable_call() = std::move(call);
  (void)Send(told);  // a connection that broke answers all that is pending
  return {id, std::move(answer)};
}

absl::StatusOr<HostSays::Answer> RemoteHost::Wait(uint64_t call, Answer answer, Duration patience,
                                                  Values* values) {
  const bool answered = answer.wait_for(patience) == std::future_status::ready;
  {
    std::lock_guard lock(mutex_);
    if (values != nullptr) *values = std::move(pending_[call].values);
    pending_.erase(call);
    silent_ = silent_ || !answered;
  }
  if (answered) return answer.get();
  return absl::UnavailableError(absl::StrCat("server ", server_, " did not answer in time"));
}

absl::StatusOr<HostSays::Answer> RemoteHost::Ask(HostTold::Call call, Duration patience,
                                                 Values* values) {
  auto [id, answer] = Start(std::move(call));
  return Wait(id, std::move(answer), patience, values);
}

void RemoteHost::Tell(HostTold::Call call) {
  HostTold told;
  *told.mutable_call() = std::move(call);
  (void)Send(told);
}

absl::StatusOr<std::shared_ptr<ShardHandle>> RemoteHost::Take(uint32_t shard,
                                                              const ShardImage& image,
                                                              uint32_t starts) {
  if (!SendImage(shard, image, [this](const ShardPart& part) { return SendPart(part); })) {
    std::lock_guard lock(mutex_);
    return Away();
  }
  HostTold::Call call;
  call.set_shard(shard);
  call.set_take(starts);
  PSGD_ASSIGN_OR_RETURN(const HostSays::Answer answer, Ask(std::move(call), kImagePatience));
  {
    std::lock_guard lock(mutex_);
    shards_[shard].known.written_order = answer.written_order();
  }
  return Shard(shard, answer.address());
}

absl::Status RemoteHost::Follow(uint32_t shard, const GivenSteps& given) {
  if (!SendEntries(shard, given.steps, [this](const ShardPart& part) { return SendPart(part); })) {
    std::lock_guard lock(mutex_);
    return Away();
  }
  HostTold::Call call;
  call.set_shard(shard);
  call.set_follow(given.checkpoint_done);
  return Ask(std::move(call), kImagePatience).status();
}

void RemoteHost::Drop(uint32_t shard) {
  HostTold::Call call;
  call.set_shard(shard);
  call.mutable_drop();
  Tell(std::move(call));
}

void RemoteHost::GoOn(uint32_t shard) {
  HostTold::Call call;
  call.set_shard(shard);
  call.mutable_keep_on();
  Tell(std::move(call));
}

void RemoteHost::Admit(const CoordinatorRecord::Pass& pass) {
  HostTold told;
  *told.mutable_admit() = pass;
  (void)Send(told);
}

void RemoteHost::Remove(const WorkerKey& worker) {
  HostTold told;
  *told.mutable_remove() = worker;
  (void)Send(told);
}

absl::Status RemoteHost::Serve(const std::string& name, const HostSays::Ready& ready,
                               HostStream* stream, const std::function<absl::Status()>& begin) {
  {
    // One that came back before it was seen to go.
    std::unique_lock lock(mutex_);
    if (stream_ != nullptr) stream_->End();
    disconnected_.wait(lock, [&] { return stream_ == nullptr; });
    if (ended_) return absl::UnavailableError("the server ends");
    name_ = name;
    leaving_ = false;
    heard_ = SteadyNow();
    silent_ = false;
    stream_ = stream;
    for (int i = 0; i < ready.shards_size(); ++i) {
      Known& known = shards_[ready.shards(i)].known;
      known.address = ready.addresses(i);
      known.written_order = 0;  // until it says so again: its machine may have lost power
    }
  }
  std::thread reader([&] {
    HostSays says;
    while (stream->Receive(&says)) Heard(std::move(says));
    Disconnect(stream);
  });
  const absl::Status begun = begin();
  if (!begun.ok()) {
    HostTold told;
    told.set_failed(std::string(begun.message()));
    HangUp(told);
  }
  reader.join();
  return begun;
}

void RemoteHost::Disconnect(HostStream* stream) {
  std::lock_guard one_at_a_time(sending_);
  std::lock_guard lock(mutex_);
  if (stream_ != stream) return;
  stream_ = nullptr;
  for (auto& [id, pending] : pending_) Resolve(Away(), &pending);
  disconnected_.notify_all();
}

void RemoteHost::End(bool over) {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  HostTold told;
  if (over) told.set_over(true);
  HangUp(told);
}

void RemoteHost::HangUp(const HostTold& last) {
  const bool says_why = last.told_case() != HostTold::TOLD_NOT_SET && Send(last);
  std::unique_lock lock(mutex_);
  // The other side hangs up once it knows.
  const Duration patience = says_why ? kGoodbye : Duration(0);
  if (!disconnected_.wait_for(lock, patience, [&] { return stream_ == nullptr; })) stream_->End();
}

void RemoteHost::Heard(HostSays says) {
  absl::Status part;
  switch (says.says_case()) {
    case HostSays::kAnswer: {
      std::lock_guard lock(mutex_);
      const auto found = pending_.find(says.answer().call());
      if (found == pending_.end()) return;  // it came too late
      Known& known = shards_[found->second.shard].known;
      known.written_order = std::max(known.written_order, says.answer().written_order());
      const absl::Status status(static_cast<absl::StatusCode>(says.answer().code()),
                                says.answer().message());
      if (status.ok()) {
        Resolve(says.answer(), &found->second);
      } else {
        Resolve(status, &found->second);
      }
      break;
    }
    case HostSays::kPart:
      part = HeardPart(says.part());
      break;
    case HostSays::kValues: {
      std::lock_guard lock(mutex_);
      const auto found = pending_.find(says.values().call());
      if (found == pending_.end()) return;
      found->second.values.emplace_back(says.values().slice(),
                                        Bytes::CopyOf(AsBytes(says.values().values())));
      break;
    }
    case HostSays::kHeld: {
      std::lock_guard lock(mutex_);
      Known& known = shards_[says.held().status().shard()].known;
      known.status = says.held().status();
      known.written_order = std::max(known.written_order, says.held().written_order());
      break;
    }
    case HostSays::kQuarantined:
      callbacks_.on_quarantine({says.quarantined().key(), says.quarantined().why()});
      break;
    case HostSays::kSpan:
      if (callbacks_.on_spans) callbacks_.on_spans({says.span()});
      break;
    case HostSays::kLeaving: {
      {
        std::lock_guard lock(mutex_);
        leaving_ = true;
      }
      callbacks_.on_leaving();
      break;
    }
    default:
      break;
  }
  std::lock_guard lock(mutex_);
  heard_ = SteadyNow();
  silent_ = false;
  if (part.ok()) return;
  log_->error("server {}: {}", server_, part.ToString());
  if (stream_ != nullptr) stream_->End();
}

absl::Status RemoteHost::HeardPart(const ShardPart& part) {
  std::optional<ShardCut> cut;
  {
    std::lock_guard lock(mutex_);
    PSGD_ASSIGN_OR_RETURN(cut, shards_[part.shard()].arriving.Add(part));
  }
  if (cut) callbacks_.on_cut(part.shard(), *std::move(cut));
  return absl::OkStatus();
}

ServerStatus RemoteHost::Status() const {
  std::lock_guard lock(mutex_);
  ServerStatus status;
  status.set_server(server_);
  status.set_name(name_);
  status.set_connected(stream_ != nullptr && !silent_);
  status.set_leaving(leaving_);
  if (heard_ != Time()) status.set_seconds_since_heard(Seconds(SteadyNow() - heard_));
  return status;
}

bool RemoteHost::connected() const {
  std::lock_guard lock(mutex_);
  return stream_ != nullptr && !silent_;
}

bool RemoteHost::leaving() const {
  std::lock_guard lock(mutex_);
  return leaving_;
}

}  // namespace psgd
