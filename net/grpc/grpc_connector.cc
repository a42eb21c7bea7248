// The connecting side: a channel and a stream for each address. A broken stream is opened again
// after a pause. Queued messages are kept, so a Send to a lost peer succeeds until the queue is
// full.
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "net/address.h"
#include "net/grpc/grpc_endpoint.h"
#include "net/grpc/grpc_endpoint_base.h"
#include "net/grpc/grpc_options.h"
#include "net/grpc/grpc_security.h"
#include "net/transport_security.h"

namespace psgd {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::milliseconds(2'000);
// After a stream that lived this long, the next pause is short again.
constexpr Duration kGoodLife = std::chrono::milliseconds(5'000);
// Cancelled calls end at once. A longer wait is a fault in gRPC, which must not hang us.
constexpr Duration kCancelWait = std::chrono::milliseconds(5'000);

// An opened stream. GrpcShared::live keeps it alive until gRPC is done with it.
class ClientStream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                     public GrpcStream {
 public:
  using GrpcStream::GrpcStream;

  void Open(grpc::GenericStub* stub, const std::string& token) {
    context_.set_wait_for_ready(true);
    AddGrpcToken(token, &context_);
    stub->PrepareBidiStreamingCall(&context_, kGrpcMethod, {}, this);
    AddHold();  // until Release: operations also start outside of gRPC's callbacks
    StartCall();
    Continue();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override { ReadDone(ok); }
  void OnWriteDone(bool ok) override { WriteDone(ok); }
  void OnWritesDoneDone(bool ok) override { WriteDone(ok); }
  void OnDone(const grpc::Status& /*status*/) override { Done(); }

 protected:
  void StartReading(grpc::ByteBuffer* into) override { StartRead(into); }
  void StartWriting(const grpc::ByteBuffer* message) override { StartWrite(message); }
  bool IsAccepted() const override { return false; }
  void StartWritesDone() override {
    ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>::StartWritesDone();
  }
  void Release() override { RemoveHold(); }

 private:
  grpc::ClientContext context_;
};

class GrpcConnector : public GrpcEndpointBase {
 public:
  using GrpcEndpointBase::GrpcEndpointBase;

  ~GrpcConnector() override {
    Close();
    for (Link& link : links_) {
      if (link.channel->GetState(false) != GRPC_CHANNEL_READY) link.stream->Cancel();
    }
    const auto none_live = [&] { return shared_->live.empty(); };
    std::unique_lock lock(shared_->mutex);
    if (!shared_->changed.wait_for(lock, options_.linger, none_live)) {
      lock.unlock();
      for (Link& link : links_) link.stream->Cancel();
      lock.lock();
      shared_->changed.wait_for(lock, kCancelWait, none_live);
    }
    lock.unlock();
    DestroyEnded();
  }

  absl::Status Connect(const std::vector<std::string>& addresses) {
    std::vector<Address> parsed;
    for (const std::string& text : addresses) {
      PSGD_ASSIGN_OR_RETURN(parsed.emplace_back(), ParseAddress(text));
      if (parsed.back().scheme != Address::Scheme::kTcp || parsed.back().port == 0) {
        return InvalidArgumentError(
            "the gRPC transport connects to tcp://HOST:PORT, port not 0; not to ", text);
      }
    }
    for (const Address& address : parsed) {
      Link link;
      link.channel = grpc::CreateCustomChannel(
          address.HostPort(),
          GrpcChannelCredentials(security() == nullptr ? nullptr : security()->credentials.get()),
          GrpcChannelArguments(options_));
      link.stub = std::make_unique<grpc::GenericStub>(link.channel);
      link.outbox = std::make_shared<GrpcOutbox>();
      links_.push_back(std::move(link));
      Open(links_.size() - 1);
    }
    return absl::OkStatus();
  }

  absl::Status Send(PeerId to, const Message& message) override {
    if (to >= links_.size()) return NotConnected(to);
    return SendOn(*links_[to].stream, to, message);
  }

 protected:
  Time Maintain() override {
    Time next = Time::max();
    for (size_t i = 0; i < links_.size(); ++i) {
      Link& link = links_[i];
      {
        std::lock_guard lock(shared_->mutex);
        if (shared_->live.contains(i)) continue;
      }
      const Time now = SteadyNow();
      if (!link.broken) {
        link.broken = true;
        link.pause = now - link.opened_at > kGoodLife ? kFirstPause
                                                      : std::min(2 * link.pause, kLongestPause);
        link.open_at = now + link.pause;
      }
      if (now >= link.open_at) {
        Open(i);
      } else {
        next = std::min(next, link.open_at);
      }
    }
    return next;
  }

 private:
  struct Link {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<grpc::GenericStub> stub;
    std::shared_ptr<GrpcOutbox> outbox;    // guarded by shared_->mutex
    std::shared_ptr<ClientStream> stream;  // the present stream, or the last one
    Time opened_at{};
    bool broken = false;
    Time open_at{};  // when to open a broken link again
    Duration pause = kFirstPause / 2;
  };

  const TransportSecurity* security() const { return options_.security.get(); }

  void Open(PeerId index) {
    Link& link = links_[index];
    link.broken = false;
    link.opened_at = SteadyNow();
    link.stream = std::make_shared<ClientStream>(shared_, index, link.outbox);
    {
      std::lock_guard lock(shared_->mutex);
      shared_->live[index] = link.stream;
    }
    link.stream->Open(link.stub.get(), security() == nullptr ? "" : security()->token);
  }

  std::vector<Link> links_;
};

}  // namespace

StatusOrEndpoint ConnectGrpc(const std::vector<std::string>& addresses,
                             const TransportOptions& options) {
  auto endpoint = std::make_unique<GrpcConnector>(options);
  PSGD_RETURN_IF_ERROR(endpoint->Connect(addresses));
  return endpoint;
}

}  // namespace psgd
