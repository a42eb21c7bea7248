#include "simulate/traffic.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "compression/policy.h"
#include "engine/graph/model_spec.h"
#include "engine/runtime/planned_network.h"
#include "engine/zoo/zoo.h"
#include "server/cluster/spread.h"
#include "server/shard/placement.h"
#include "server/shard/slice_state.h"
#include "server/shard/weights_encoder.h"
#include "train/network_data.h"
#include "worker/update_encoder.h"

namespace psgd::sim {
namespace {

constexpr uint64_t kStep = 1'000'000;  // codecs that begin gently are past that
constexpr int kEncodings = 2;          // the residual of the first is in the second

absl::Status CheckModelled(const Config& config) {
  const auto refuse = [](const std::string& what, const std::string& why,
                         const std::string& instead) {
    return absl::UnimplementedError(
        absl::StrCat("ps-sim does not know the bytes of ", what, ", which ", why, "; ", instead));
  };
  const CompressionConfig& compression = config.compression();
  std::vector<const CodecConfig*> pushes = {&compression.push()};
  for (const CompressionRule& rule : compression.rules()) pushes.push_back(&rule.push());
  for (const CodecConfig* push : pushes) {
    if (push->has_auto_()) {
      return refuse("compression.push: auto", "chooses by what it measures",
                    "name the codec that it took (ps-run's summary has it)");
    }
    if (push->has_factors()) {
      return refuse("compression.push: factors", "depend on the batch",
                    "try --set compression.push=powersgd, or another codec");
    }
  }
  if (compression.lossless().has_zstd()) {
    return refuse("compression.lossless: zstd", "depend on the values",
                  "try --set compression.lossless=none");
  }
  if (compression.pull().has_delta() && !compression.pull().delta().has_codec()) {
    return refuse("compression.pull: delta without a codec", "depend on what changed meanwhile",
                  "try --set compression.pull=none, fp16 or {delta: {codec: topk}}");
  }
  return absl::OkStatus();
}

// Close to normal, as gradients are: sums of four bytes.
void FillGradient(uint64_t salt, std::vector<float>* gradient) {
  RandomStream draws(MakeKey(salt, RandomPurpose::kSynthetic, kStep), salt);
  for (float& value : *gradient) {
    const uint32_t bits = draws.NextBits();
    const uint32_t sum = (bits & 0xFF) + (bits >> 8 & 0xFF) + (bits >> 16 & 0xFF) + (bits >> 24);
    value = (static_cast<float>(sum) - 510) * 1e-4f;
  }
}

// One parameter of each kind: parameters of a kind have the same shape, codec and slices, and so
// the same bytes. A large network has few kinds.
struct Kinds {
  ModelSpec model;
  Traffic traffic;
  std::vector<int> of;  // slice of `traffic`, by slice of the whole model
};

Kinds FindKinds(const Workload& workload, const Placement& placement) {
  Kinds kinds;
  std::map<std::string, int> known;  // kind -> its first slice
  for (int first = 0; first < placement.slices_size();) {
    const uint32_t parameter = placement.slices(first).parameter();
    ParameterSpec spec = workload.model.parameters(static_cast<int>(parameter));
    std::string kind = ChooseCodec(workload.config.compression(), spec).SerializeAsString();
    spec.clear_name();
    kind += spec.SerializeAsString();
    int end = first;
    while (end < placement.slices_size() && placement.slices(end).parameter() == parameter) {
      absl::StrAppend(&kind, " ", placement.slices(end++).count());
    }
    const auto [at, fresh] = known.try_emplace(kind, kinds.traffic.placement.slices_size());
    for (int slice = first; slice < end; ++slice) {
      kinds.of.push_back(at->second + slice - first);
      if (!fresh) continue;
      SliceSpec* kept = kinds.traffic.placement.add_slices();
      *kept = placement.slices(slice);
      kept->set_parameter(static_cast<uint32_t>(kinds.model.parameters_size()));
    }
    if (fresh) {
      *kinds.model.add_parameters() = workload.model.parameters(static_cast<int>(parameter));
    }
    first = end;
  }
  kinds.traffic.bytes.resize(kinds.traffic.placement.slices_size());
  return kinds;
}

absl::Status MeasurePushes(const Workload& workload, Traffic* traffic) {
  PSGD_ASSIGN_OR_RETURN(
      const auto encoder,
      UpdateEncoder::Create(workload.config, workload.model, traffic->placement, /*worker=*/0));
  for (int i = 0; i < workload.model.parameters_size(); ++i) {
    std::vector<float> gradient(ElementsOf(workload.model.parameters(i)));
    const std::vector<float> weights(gradient.size());
    std::vector<EncodedSlice> encoded;
    for (int round = 0; round < kEncodings; ++round) {
      FillGradient(static_cast<uint64_t>(i) * kEncodings + round + 1, &gradient);
      encoded.clear();
      encoder->Encode(i, gradient, weights, 0, kStep + round, &encoded);
    }
    for (const EncodedSlice& slice : encoded) {
      traffic->bytes[slice.slice].push = slice.payload.size();
      traffic->bytes[slice.slice].push_codec = slice.codec;
    }
  }
  return absl::OkStatus();
}

absl::Status MeasurePulls(const Workload& workload, Traffic* traffic) {
  SliceUpdater updater(workload.config);
  WeightsEncoder encoder(workload.config);
  for (int id = 0; id < traffic->placement.slices_size(); ++id) {
    PSGD_ASSIGN_OR_RETURN(SliceState slice,
                          updater.Make(id, traffic->placement.slices(id), workload.model,
                                       workload.config.seed(), nullptr));
    SentWeights sent;
    PullPart part;
    Bytes payload = encoder.Encode(slice, 0, 0, &sent, &part);
    if (part.mark() != 0) {
      // From the second pull on, what changed in between.
      std::vector<float> weights(slice.weights.size());
      FillGradient(id + 1, &weights);
      std::copy(weights.begin(), weights.end(), slice.weights.Writable().begin());
      ++slice.version;
      const uint64_t mark = part.mark();
      part.Clear();
      payload = encoder.Encode(slice, 0, mark, &sent, &part);
    }
    traffic->bytes[id].pull = payload.size();
    traffic->bytes[id].pull_codec = part.codec();
  }
  return absl::OkStatus();
}

struct ShardBytes {
  uint32_t shard = 0;
  double push = 0;
  double pull = 0;
};

double Ratio(double all, double one) { return one == 0 ? 0 : all / one; }

std::vector<uint64_t> WeightBytes(const Traffic& traffic, size_t shards) {
  std::vector<uint64_t> bytes(shards);
  for (const SliceSpec& slice : traffic.placement.slices())
    bytes[slice.shard()] += uint64_t{slice.count()} * sizeof(float);
  return bytes;
}

}  // namespace

absl::StatusOr<Workload> OpenWorkload(const Config& config) {
  PSGD_RETURN_IF_ERROR(CheckModelled(config));
  Workload workload;
  workload.config = config;
  PSGD_ASSIGN_OR_RETURN(const DataSets data, OpenDataOf(config));
  PSGD_ASSIGN_OR_RETURN(const ModelGraph graph,
                        BuildTrainingGraph(config.model(), data.shape, config.data().batch()));
  workload.model = MakeModelSpec(ModelName(config.model()), graph.graph);
  workload.samples = data.train->size();
  for (ParameterSpec& parameter : *workload.model.mutable_parameters()) {
    workload.weights += ElementsOf(parameter);
    parameter.mutable_initializer()->mutable_constant();  // only how many there are matters
  }
  PSGD_RETURN_IF_ERROR(ValidateModel(workload.model));
  PSGD_RETURN_IF_ERROR(CheckRules(config.compression(), workload.model));
  return workload;
}

absl::StatusOr<Traffic> MeasureTraffic(const Workload& workload) {
  Traffic traffic;
  traffic.placement = PlaceSlices(workload.model, workload.config);
  Kinds kinds = FindKinds(workload, traffic.placement);
  Workload of_kinds = workload;
  of_kinds.model = std::move(kinds.model);
  PSGD_RETURN_IF_ERROR(MeasurePushes(of_kinds, &kinds.traffic));
  PSGD_RETURN_IF_ERROR(MeasurePulls(of_kinds, &kinds.traffic));
  for (const int slice : kinds.of) traffic.bytes.push_back(kinds.traffic.bytes[slice]);
  return traffic;
}

Bytes HollowPayload(size_t size) {
  // What is longer than its values, as a codec that gained nothing, has room in twice a slice.
  static const std::vector<std::byte> zeros(2 * kMaxSliceElements * sizeof(float));
  return Bytes::Unowned(ByteSpan(zeros).first(std::min(size, zeros.size())));
}

std::vector<uint32_t> PlaceShards(const Traffic& traffic, int shards,
                                  const std::vector<ServerPlace>& places, int workers) {
  std::map<uint32_t, ServerPlace> by_server;  // of the run, which counts them from 1
  for (const ServerPlace& place : places)
    by_server[static_cast<uint32_t>(by_server.size() + 1)] = place;
  const ServerWeights weights = WeighServers(by_server, workers);
  // The first server has all shards until the others come.
  std::vector<uint32_t> servers =
      SpreadShards(std::vector<uint32_t>(shards, 1), WeightBytes(traffic, shards), weights);
  for (uint32_t& server : servers) --server;
  return servers;
}

HeldShares SharesHeld(const Traffic& traffic, const std::vector<uint32_t>& servers, int first,
                      int end) {
  const std::vector<uint64_t> bytes = WeightBytes(traffic, servers.size());
  std::vector<double> held(end - first);
  double all = 0;
  for (size_t s = 0; s < servers.size(); ++s) {
    const int server = static_cast<int>(servers[s]);
    if (server >= first && server < end) held[server - first] += static_cast<double>(bytes[s]);
    all += static_cast<double>(bytes[s]);
  }
  if (held.empty()) return {};
  const auto [least, most] = std::ranges::minmax(held);
  return {end - first, Ratio(least, all), Ratio(most, all)};
}

std::vector<ShardGroup> GroupShards(const Traffic& traffic, const std::vector<uint32_t>& servers,
                                    int most) {
  std::vector<ShardBytes> all(servers.size());
  for (uint32_t s = 0; s < all.size(); ++s) all[s].shard = s;
  for (int id = 0; id < traffic.placement.slices_size(); ++id) {
    ShardBytes& shard = all[traffic.placement.slices(id).shard()];
    shard.push += static_cast<double>(traffic.bytes[id].push);
    shard.pull += static_cast<double>(traffic.bytes[id].pull);
  }
  std::map<uint32_t, std::vector<ShardBytes>> held;
  for (const ShardBytes& shard : all) held[servers[shard.shard]].push_back(shard);
  std::vector<ShardGroup> groups;
  for (auto& [server, shards] : held) {
    std::ranges::stable_sort(shards, [](const ShardBytes& a, const ShardBytes& b) {
      return a.push + a.pull > b.push + b.pull;
    });
    const size_t part = std::max(most, 0) * shards.size() / all.size();
    const size_t count = std::clamp<size_t>(part, 1, shards.size());
    for (size_t g = 0; g < count; ++g) {
      const size_t begin = g * shards.size() / count, end = (g + 1) * shards.size() / count;
      ShardBytes sum;
      for (size_t i = begin; i < end; ++i) {
        sum.push += shards[i].push;
        sum.pull += shards[i].pull;
      }
      groups.push_back({shards[begin].shard, server, static_cast<double>(end - begin),
                        Ratio(sum.push, shards[begin].push), Ratio(sum.pull, shards[begin].pull)});
    }
  }
  return groups;
}

Traffic Reduce(const Traffic& traffic, const std::vector<ShardGroup>& groups) {
  Traffic reduced;
  for (size_t g = 0; g < groups.size(); ++g)
    reduced.placement.add_endpoints(absl::StrCat("sim://", g));
  for (int id = 0; id < traffic.placement.slices_size(); ++id) {
    const SliceSpec& slice = traffic.placement.slices(id);
    const auto group =
        std::ranges::find_if(groups, [&](const ShardGroup& g) { return g.shard == slice.shard(); });
    if (group == groups.end()) continue;
    SliceSpec* kept = reduced.placement.add_slices();
    *kept = slice;
    kept->set_shard(static_cast<uint32_t>(group - groups.begin()));
    reduced.bytes.push_back(traffic.bytes[id]);
  }
  return reduced;
}

}  // namespace psgd::sim
