#include "server/control/run_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "net/grpc/grpc_client_stream.h"
#include "net/wire_format.h"
#include "proto/peers.grpc.pb.h"
#include "server/control/task_queue.h"
#include "server/durability/shard_parts.h"

namespace psgd {

struct RunLink::Connection {
  Connection(const std::string& leader, const RunLinkOptions& options)
      : stream(leader, options.credentials.get(), options.patience, &Peers::Stub::Serve) {}
  // The queue's thread may be writing.
  ~Connection() { stream.Cancel(); }

  GrpcClientStream<Peers, ServerSays, LeaderSays> stream;
  TaskQueue queue;
};

absl::StatusOr<LeaderSays::Begin> AskForRun(const std::string& server,
                                            const Credentials* credentials, const std::string& name,
                                            Duration patience) {
  GrpcClientStream<Peers, ServerSays, LeaderSays> stream(server, credentials, patience,
                                                         &Peers::Stub::Serve);
  if (!stream.connected()) return absl::UnavailableError(absl::StrCat("no answer from ", server));
  ServerSays hello;
  hello.mutable_hello()->set_protocol(kProtocolVersion);
  hello.mutable_hello()->set_name(name);
  LeaderSays says;
  if (!stream.Write(hello) || !stream.Read(&says)) return stream.Finish();
  if (says.has_begin()) return says.begin();
  return absl::InternalError(absl::StrCat(server, " does not say which run it has"));
}

RunLink::RunLink(RunLinkOptions options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

RunLink::~RunLink() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    if (connection_ != nullptr) connection_->stream.Cancel();
    changed_.notify_all();
  }
  thread_.join();
}

void RunLink::SetLeader(const std::string& address) {
  std::lock_guard lock(mutex_);
  if (address == leader_) return;
  leader_ = address;
  if (connection_ != nullptr) connection_->stream.Cancel();
  changed_.notify_all();
}

void RunLink::Send(ServerSays says) {
  std::lock_guard lock(mutex_);
  if (connection_ == nullptr) return;
  connection_->queue.Post(
      [stream = &connection_->stream, says = std::move(says)] { return stream->Write(says); });
}

void RunLink::SendCut(uint32_t shard, std::shared_ptr<const ShardCut> cut) {
  std::lock_guard lock(mutex_);
  if (connection_ == nullptr) return;
  connection_->queue.Post([stream = &connection_->stream, shard, cut = std::move(cut)] {
    return psgd::SendCut(shard, *cut, [&](const ShardPart& part) {
      ServerSays says;
      *says.mutable_part() = part;
      return stream->Write(says);
    });
  });
}

std::string RunLink::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || !leader_.empty(); });
  return ended_ ? "" : leader_;
}

void RunLink::Run() {
  uint64_t number = 0;
  for (std::string leader = Next(); !leader.empty(); leader = Next()) {
    Talk(leader, ++number);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.retry, [&] { return ended_ || leader_ != leader; });
  }
}

void RunLink::Talk(const std::string& leader, uint64_t number) {
  const auto connection = std::make_shared<Connection>(leader, options_);
  auto& stream = connection->stream;
  if (!stream.connected()) {
    return options_.events.on_gone(number,
                                   absl::UnavailableError(absl::StrCat("no answer from ", leader)));
  }
  ServerSays hello;
  hello.mutable_hello()->set_protocol(kProtocolVersion);
  hello.mutable_hello()->set_name(options_.name);
  const bool greeted = stream.Write(hello);  // before all that Send sends
  {
    std::lock_guard lock(mutex_);
    if (ended_ || leader_ != leader) return;
    connection_ = connection;
  }
  LeaderSays says;
  if (greeted && stream.Read(&says)) {
    if (says.has_begin()) {
      options_.events.on_begin(number, says.begin());
    } else {
      options_.events.on_message(number, says);
    }
    while (stream.Read(&says)) options_.events.on_message(number, says);
  }
  {
    std::lock_guard lock(mutex_);
    connection_.reset();
  }
  options_.events.on_gone(number, stream.Finish());
}

}  // namespace psgd
