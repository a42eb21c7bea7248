// The shared part of both gRPC endpoints: taking messages out of the inbox.
#pragma once

#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

#include "net/grpc/grpc_stream.h"
#include "net/transport.h"

namespace psgd {

inline constexpr char kGrpcMethod[] = "/psgd.DataPlane/Stream";

class GrpcEndpointBase : public Endpoint {
 public:
  explicit GrpcEndpointBase(const TransportOptions& options);

  std::optional<Received> Receive(Duration timeout) final;
  void Wake() final;
  const std::string& address() const final { return address_; }
  EndpointStats stats() const final;

 protected:
  // Repairs broken streams. Returns the time of the next call it needs. Owner thread only.
  virtual Time Maintain() { return Time::max(); }

  struct Encoded {
    grpc::ByteBuffer buffer;
    size_t size = 0;
  };
  absl::StatusOr<Encoded> Encode(const Message& message) const;
  void CountSent(size_t size);
  // Ends all streams once their outboxes are empty: the first half of a shutdown.
  void Close();
  void DestroyEnded();

  const std::shared_ptr<GrpcShared> shared_;
  std::string address_;

 private:
  // Takes the first parcel and resumes paused streams. REQUIRES: the inbox is not empty.
  GrpcShared::Parcel Take(std::unique_lock<std::mutex> lock);
  std::optional<Message> Decode(const GrpcShared::Parcel& parcel);

  BufferPool pool_;
  EndpointStats stats_;
};

}  // namespace psgd
