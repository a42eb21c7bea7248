#include "server/control/follow_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "net/grpc/grpc_client_stream.h"
#include "net/wire_format.h"
#include "proto/peers.grpc.pb.h"
#include "server/control/copy_wire.h"
#include "server/control/task_queue.h"

namespace psgd {

struct FollowLink::Connection {
  Connection(const std::string& leader, const FollowLinkOptions& options)
      : stream(leader, options.credentials.get(), options.patience, &Peers::Stub::Follow) {}
  // The queue's thread may be writing.
  ~Connection() { stream.Cancel(); }

  GrpcClientStream<Peers, FollowingSays, LeadingSays> stream;
  TaskQueue queue;
};

FollowLink::FollowLink(FollowLinkOptions options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

FollowLink::~FollowLink() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    if (connection_ != nullptr) connection_->stream.Cancel();
    changed_.notify_all();
  }
  thread_.join();
}

void FollowLink::SetLeader(const std::string& address) {
  std::lock_guard lock(mutex_);
  if (address == leader_) return;
  leader_ = address;
  if (connection_ != nullptr) connection_->stream.Cancel();
  changed_.notify_all();
}

void FollowLink::Send(const CopyMessage& message) {
  std::lock_guard lock(mutex_);
  if (connection_ == nullptr) return;
  connection_->queue.Post([stream = &connection_->stream, says = EncodeFollowing(message)] {
    return stream->Write(says);
  });
}

std::string FollowLink::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || !leader_.empty(); });
  return ended_ ? "" : leader_;
}

void FollowLink::Run() {
  for (std::string leader = Next(); !leader.empty(); leader = Next()) {
    const absl::Status ended = Talk(leader);
    options_.log->debug("shard {}: the link to the leading copy at {} ended: {}", options_.shard,
                        leader, ended.ToString());
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.retry, [&] { return ended_ || leader_ != leader; });
  }
}

absl::Status FollowLink::Talk(const std::string& leader) {
  const auto connection = std::make_shared<Connection>(leader, options_);
  auto& stream = connection->stream;
  if (!stream.connected()) return absl::UnavailableError(absl::StrCat("no answer from ", leader));
  FollowingSays hello;
  hello.mutable_hello()->set_protocol(kProtocolVersion);
  hello.mutable_hello()->set_server(options_.server);
  hello.mutable_hello()->set_shard(options_.shard);
  hello.mutable_hello()->set_run_id(options_.run_id);
  if (!stream.Write(hello)) return stream.Finish();
  {
    std::lock_guard lock(mutex_);
    if (ended_ || leader_ != leader) return absl::CancelledError("another copy leads by now");
    connection_ = connection;
  }
  options_.on_connected();
  LeadingReader reader(options_.shard);
  LeadingSays says;
  absl::Status broken;
  while (broken.ok() && stream.Read(&says)) {
    auto message = reader.Add(says);
    broken = message.status();
    if (!broken.ok()) break;
    message->has_value() ? options_.on_copy(std::move(**message)) : options_.on_part();
  }
  {
    std::lock_guard lock(mutex_);
    connection_.reset();
  }
  return broken.ok() ? stream.Finish() : broken;
}

}  // namespace psgd
