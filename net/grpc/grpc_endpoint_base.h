// The shared part of both gRPC endpoints: taking messages out of the inbox.
#pragma once

#include <grpcpp/support/channel_arguments.h>

#include <memory>

#include "net/endpoint_base.h"
#include "net/grpc/grpc_stream.h"

namespace psgd {

inline constexpr char kGrpcMethod[] = "/psgd.DataPlane/Stream";

class GrpcEndpointBase : public EndpointBase {
 public:
  explicit GrpcEndpointBase(const TransportOptions& options);

  std::optional<Received> Receive(Duration timeout) final;
  void Wake() final;
  EndpointStats stats() const final;

 protected:
  // Repairs broken streams. Returns the time of the next call it needs. Owner thread only.
  virtual Time Maintain() { return Time::max(); }

  absl::Status SendOn(GrpcStream& stream, PeerId to, const Message& message);

  // Ends all streams once their outboxes are empty: the first half of a shutdown.
  void Close();
  void DestroyEnded();

  const std::shared_ptr<GrpcShared> shared_;

 private:
  // Takes the first parcel and resumes paused streams. REQUIRES: the inbox is not empty.
  GrpcShared::Parcel Take(std::unique_lock<std::mutex> lock);

  BufferPool pool_;
};

}  // namespace psgd
