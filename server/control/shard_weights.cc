#include "server/control/shard_weights.h"

#include "absl/strings/str_cat.h"
#include "net/grpc/grpc_client_stream.h"
#include "proto/peers.grpc.pb.h"

namespace psgd {

absl::Status ReadShardWeights(
    const std::string& server, const Credentials* credentials, const ShardWeightsRequest& request,
    Duration deadline,
    const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take) {
  const auto stub = Peers::NewStub(GrpcChannelTo(server, credentials));
  grpc::ClientContext context;
  // A server that is frozen, or whose machine is gone, must not be waited for without end.
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  const auto reader = stub->ShardWeights(&context, request);
  ShardWeightsChunk chunk;
  absl::Status failed;
  while (failed.ok() && reader->Read(&chunk)) {
    const std::string& values = chunk.values();
    failed = take(chunk.slice(), Bytes::Unowned(AsBytes(absl::string_view(values))));
  }
  if (!failed.ok()) context.TryCancel();
  const absl::Status ended = ToAbsl(reader->Finish());
  if (!failed.ok()) return failed;
  return Annotate(ended, absl::StrCat("reading shard ", request.shard(), " from ", server));
}

}  // namespace psgd
