// A stream to another server; both sides write. Include it only from files that use gRPC.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "common/clock.h"
#include "net/grpc/grpc_security.h"
#include "net/grpc/grpc_status.h"

namespace psgd {

inline std::shared_ptr<grpc::Channel> GrpcChannelTo(const std::string& server,
                                                    const Credentials* credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy must not see the run
  arguments.SetMaxReceiveMessageSize(-1);           // an update may have any size
  // Each channel has its own connection, so that streams do not wait for each other.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server, GrpcChannelCredentials(credentials), arguments);
}

// One thread may read while others write.
template <typename Service, typename Says, typename Told>
class GrpcClientStream {
 public:
  using Stream = grpc::ClientReaderWriter<Says, Told>;
  using Stub = typename Service::Stub;

  // Waits for the server for at most `patience`.
  GrpcClientStream(const std::string& server, const Credentials* credentials, Duration patience,
                   std::unique_ptr<Stream> (Stub::*open)(grpc::ClientContext*))
      : channel_(GrpcChannelTo(server, credentials)),
        connected_(channel_->WaitForConnected(std::chrono::system_clock::now() + patience)),
        stub_(Service::NewStub(channel_)),
        stream_(Open(open)) {}
  ~GrpcClientStream() { Cancel(); }

  bool connected() const { return connected_; }
  // False: the connection ended.
  bool Read(Told* told) { return stream_->Read(told); }
  bool Write(const Says& says) {
    std::lock_guard lock(writing_);
    return stream_->Write(says);
  }
  // Makes waiting calls return false. Thread-safe.
  void Cancel() { context_.TryCancel(); }
  // Returns why the stream ended. REQUIRES: Read returned false.
  absl::Status Finish() { return ToAbsl(stream_->Finish()); }

 private:
  std::unique_ptr<Stream> Open(std::unique_ptr<Stream> (Stub::*open)(grpc::ClientContext*)) {
    // Without this, gRPC itself waits for a server that hangs, for far longer than `patience`.
    if (!connected_) Cancel();
    return (stub_.get()->*open)(&context_);
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const bool connected_;
  grpc::ClientContext context_;
  const std::unique_ptr<Stub> stub_;
  const std::unique_ptr<Stream> stream_;
  std::mutex writing_;
};

}  // namespace psgd
