// What a config sends: the slices of its model, and the bytes that each takes on the wire.
#pragma once

#include <cstdint>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/data.pb.h"
#include "proto/model.pb.h"
#include "server/cluster/spread.h"

namespace psgd::sim {

// A config with what its data and its network say.
struct Workload {
  Config config;
  ModelSpec model;
  uint64_t samples = 0;  // of an epoch
  uint64_t weights = 0;
};
absl::StatusOr<Workload> OpenWorkload(const Config& config);

struct SliceBytes {
  size_t push = 0;
  size_t pull = 0;
  CodecId push_codec = CODEC_NONE;
  CodecId pull_codec = CODEC_NONE;
};

struct Traffic {
  Placement placement;            // without endpoints
  std::vector<SliceBytes> bytes;  // by slice
};

// The production codecs encode gradients and changes drawn at random, once: that is what every push
// and pull of the simulation takes. UNIMPLEMENTED for codecs whose bytes depend on more.
absl::StatusOr<Traffic> MeasureTraffic(const Workload& workload);

// A payload of so many bytes, at most those of the largest slice, that mean nothing; they share
// memory.
Bytes HollowPayload(size_t size);

// The server of each shard, as a run places them. Servers are numbered from 0, as `places` are.
std::vector<uint32_t> PlaceShards(const Traffic& traffic, int shards,
                                  const std::vector<ServerPlace>& places, int workers);

// How many servers there are of a kind, and what part of the weights' bytes one holds.
struct HeldShares {
  int servers = 0;
  double least = 0;
  double most = 0;
};

// The shares of the servers from `first` to before `end`. `servers`: by shard.
HeldShares SharesHeld(const Traffic& traffic, const std::vector<uint32_t>& servers, int first,
                      int end);

// Shards of one server that see the same traffic, of which one is simulated.
struct ShardGroup {
  uint32_t shard = 0;  // that with the most bytes
  uint32_t server = 0;
  double shards = 1;      // how many it stands for
  double push_scale = 1;  // bytes of all of them over those of that one
  double pull_scale = 1;
};

// Some `most` groups of shards as equal as can be; a server with shards has one at least.
// `servers`: by shard.
std::vector<ShardGroup> GroupShards(const Traffic& traffic, const std::vector<uint32_t>& servers,
                                    int most);

// The traffic of the shards that are simulated, numbered anew, as if there were no others.
Traffic Reduce(const Traffic& traffic, const std::vector<ShardGroup>& groups);

}  // namespace psgd::sim
