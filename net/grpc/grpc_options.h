// How our gRPC channels and servers differ from the defaults.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "net/transport.h"

namespace psgd {

void ConfigureGrpcServer(const TransportOptions& options, grpc::ServerBuilder* builder);
grpc::ChannelArguments GrpcChannelArguments(const TransportOptions& options);

}  // namespace psgd
