// A stream to another server that both sides write to. Only included where gRPC is.
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
  arguments.SetMaxReceiveMessageSize(-1);           // an update is as large as it is
  // A connection of its own for each: they must not wait for each other.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server, GrpcChannelCredentials(credentials), arguments);
}

// One thread may read while others write.
template <typename Service, typename Says, typename Told>
class GrpcClientStream {
 public:
  using Stream = grpc::ClientReaderWriter<Says, Told>;
  using Stub = typename Service::Stub;

  // Waits for the server so long.
  GrpcClientStream(const std::string& server, const Credentials* credentials, Duration patience,
                   std::unique_ptr<Stream> (Stub::*open)(grpc::ClientContext*))
      : channel_(GrpcChannelTo(server, credentials)),
        connected_(channel_->WaitForConnected(std::chrono::system_clock::now() + patience)),
        stub_(Service::NewStub(channel_)),
        stream_((stub_.get()->*open)(&context_)) {}
  ~GrpcClientStream() { Cancel(); }

  bool connected() const { return connected_; }
  // False: the connection ended.
  bool Read(Told* told) { return stream_->Read(told); }
  bool Write(const Says& says) {
    std::lock_guard lock(writing_);
    return stream_->Write(says);
  }
  // Makes calls that wait return false. Thread-safe.
  void Cancel() { context_.TryCancel(); }
  // Why it ended. REQUIRES: Read returned false.
  absl::Status Finish() { return ToAbsl(stream_->Finish()); }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const bool connected_;
  grpc::ClientContext context_;
  const std::unique_ptr<Stub> stub_;
  const std::unique_ptr<Stream> stream_;
  std::mutex writing_;
};

}  // namespace psgd
