#include "engine/runtime/replicas.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "engine/runtime/backend.h"
#include "engine/runtime/crew.h"
#include "engine/runtime/plugin.h"

namespace psgd {
namespace {

// The worker keys dropout. Shifted replica numbers give each replica its own masks.
constexpr int kReplicaShift = 20;
// The count of a replica that failed, so that the first replica does not wait for it.
constexpr int kAllGradients = std::numeric_limits<int>::max();

ptrdiff_t Counted(std::span<const int32_t> labels) {
  return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label >= 0; });
}

template <typename T>
std::span<const T> PartOf(std::span<const T> whole, size_t part, size_t parts) {
  const size_t each = whole.size() / parts;
  return whole.subspan(part * each, each);
}

void Add(const Network::Result& result, Network::Result* total) {
  total->loss_sum += result.loss_sum;
  total->correct += result.correct;
  total->counted += result.counted;
  total->repeated += result.repeated;
}

StepBatch PartOf(const StepBatch& batch, size_t part, size_t parts) {
  const NetworkInput input = {PartOf(batch.input.pixels, part, parts),
                              PartOf(batch.input.tokens, part, parts),
                              PartOf(batch.input.values, part, parts)};
  return {input, PartOf(batch.labels, part, parts), batch.staged,
          PartOf(batch.targets, part, parts)};
}

}  // namespace

struct Replicas::Impl {
  std::vector<std::unique_ptr<GroupPart>> group;  // empty: gradients meet on the host
  std::vector<std::unique_ptr<Network>> networks;
  // Sums over the replicas, by parameter. Empty: the first network has the sums.
  std::vector<std::vector<float>> gradients;
  int turns = 1;
  std::vector<std::vector<float>> sums;  // over the turns, by parameter; empty: there is one turn
  std::vector<bool> statistic;           // by parameter
  std::vector<uint64_t> seen;            // by replica: the version of its parameters
  uint64_t version = 1;
  std::vector<std::atomic<int>> finished;  // by replica: final gradients of the present step
  std::vector<float> weights;              // by replica: its weight in the sum of gradients
  std::vector<absl::StatusOr<Network::Result>> results;
  std::vector<float> logits;   // of the last evaluation
  std::unique_ptr<Crew> crew;  // last, so that its threads end before the members they use

  size_t size() const { return networks.size(); }
  // Runs the step of one replica, on the replica's thread.
  absl::StatusOr<Network::Result> StepOf(size_t replica, const StepBatch& batch, uint64_t step,
                                         const std::function<void(int)>& on_gradient,
                                         const BesideStep& beside);
  void RenewParameters(size_t replica);
  std::span<const float> gradient(int parameter) const {
    return gradients.empty() ? networks[0]->gradient(parameter) : gradients[parameter];
  }
  int64_t factor_rows(int parameter) const {
    return networks[0]->factor_rows(parameter) * static_cast<int64_t>(size());
  }
  // The step of all replicas on a batch of one turn.
  absl::StatusOr<Network::Result> Turn(const StepBatch& batch, uint64_t step,
                                       const std::function<void(int)>& on_gradient,
                                       const BesideStep& beside);
  absl::StatusOr<Network::Result> AllTurns(const StepBatch& batch, uint64_t step,
                                           const std::function<void(int)>& on_gradient,
                                           const BesideStep& beside);
  // Adds the gradient of a turn, which has this share of the counted labels.
  void AddTurn(int parameter, int turn, float share);
  void WeighReplicas(std::span<const int32_t> labels);
  void AddUp(int parameter);
  void Stack(int parameter);
  // Weighs one of the two factors.
  void CopyFactors(int parameter, std::span<const float> factors, int64_t rows, float weight,
                   float* out) const;
  // Run every replica's step on its part of the batch and fill `results`.
  void MeetOnHost(const StepBatch& batch, uint64_t step,
                  const std::function<void(int)>& on_gradient, const BesideStep& beside);
  void MeetOnDevices(const StepBatch& batch, uint64_t step,
                     const std::function<void(int)>& on_gradient, const BesideStep& beside);
  absl::StatusOr<Network::Result> Total() const;
};

absl::StatusOr<Network::Result> Replicas::Impl::StepOf(size_t replica, const StepBatch& batch,
                                                       uint64_t step,
                                                       const std::function<void(int)>& on_gradient,
                                                       const BesideStep& beside) {
  RenewParameters(replica);
  BesideStep own = beside;
  if (replica > 0) own.meanwhile = nullptr;  // replica 0 runs on the caller's thread
  std::optional<StepBatch> part_of_next;
  if (beside.next != nullptr)
    own.next = &part_of_next.emplace(PartOf(*beside.next, replica, size()));
  return networks[replica]->TrainStep(PartOf(batch, replica, size()), step, on_gradient, own);
}

// Called on the replica's thread, so that replicas copy at the same time.
void Replicas::Impl::RenewParameters(size_t replica) {
  if (seen[replica] == version) return;
  seen[replica] = version;
  if (replica > 0) {
    for (int i = 0; i < networks[0]->spec().parameters_size(); ++i) {
      const auto from = networks[0]->parameter(i);
      std::memcpy(networks[replica]->parameter(i).data(), from.data(), from.size_bytes());
    }
  }
  networks[replica]->InvalidateParameters();
}

// Each replica's gradient is of the mean over its own counted labels, so the weights are its share
// of the counted labels.
void Replicas::Impl::WeighReplicas(std::span<const int32_t> labels) {
  const auto total = std::max<ptrdiff_t>(1, Counted(labels));
  for (size_t r = 0; r < size(); ++r) {
    weights[r] = static_cast<float>(Counted(PartOf(labels, r, size()))) / static_cast<float>(total);
  }
}

// Factors cannot be added, so the rows of all replicas are stacked.
void Replicas::Impl::Stack(int parameter) {
  float* out = gradients[parameter].data();
  for (size_t r = 0; r < size(); ++r) {
    const std::span<const float> part = networks[r]->gradient(parameter);
    CopyFactors(parameter, part, networks[r]->factor_rows(parameter), weights[r], out);
    out += part.size();
  }
}

void Replicas::Impl::CopyFactors(int parameter, std::span<const float> factors, int64_t rows,
                                 float weight, float* out) const {
  const auto inputs = static_cast<size_t>(networks[0]->spec().parameters(parameter).shape(1));
  const size_t width = factors.size() / static_cast<size_t>(rows);
  for (size_t i = 0; i < factors.size(); ++i) {
    out[i] = i % width < inputs ? factors[i] : weight * factors[i];
  }
}

void Replicas::Impl::AddTurn(int parameter, int turn, float share) {
  std::vector<float>& sum = sums[parameter];
  const std::span<const float> part = gradient(parameter);
  if (const int64_t rows = factor_rows(parameter); rows > 0) {
    const size_t begin = static_cast<size_t>(turn) * part.size();
    return CopyFactors(parameter, part, rows, share, sum.data() + begin);
  }
  const float weight = statistic[parameter] ? 1.0f / static_cast<float>(turns) : share;
  if (turn == 0) std::ranges::fill(sum, 0.0f);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * part[i];
}

void Replicas::Impl::AddUp(int parameter) {
  if (networks[0]->factor_rows(parameter) > 0) return Stack(parameter);
  std::vector<float>& sum = gradients[parameter];
  for (size_t r = 0; r < size(); ++r) {
    const float weight = statistic[parameter] ? 1.0f / static_cast<float>(size()) : weights[r];
    const std::span<const float> part = networks[r]->gradient(parameter);
    if (r == 0) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = weight * part[i];
    } else {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * part[i];
    }
  }
}

void Replicas::Impl::MeetOnHost(const StepBatch& batch, uint64_t step,
                                const std::function<void(int)>& on_gradient,
                                const BesideStep& beside) {
  for (auto& count : finished) count = 0;
  std::atomic<bool> failed{false};
  // Gradients come in the same order in all replicas. Once the first replica has one, it waits for
  // the others, adds up and hands on the sum, while the others compute the next.
  const auto first = [&](int parameter) {
    const int mine = ++finished[0];
    for (size_t r = 1; r < size(); ++r) {
      for (int done = finished[r]; done < mine; done = finished[r]) finished[r].wait(done);
    }
    if (failed) return;
    AddUp(parameter);
    if (on_gradient) on_gradient(parameter);
  };
  crew->Run([&](size_t r) {
    const auto other = [this, r](int) {
      ++finished[r];
      finished[r].notify_one();
    };
    results[r] = StepOf(r, batch, step, r == 0 ? std::function<void(int)>(first) : other, beside);
    if (results[r].ok()) return;
    failed = true;
    finished[r] = kAllGradients;
    finished[r].notify_one();
  });
}

void Replicas::Impl::MeetOnDevices(const StepBatch& batch, uint64_t step,
                                   const std::function<void(int)>& on_gradient,
                                   const BesideStep& beside) {
  std::atomic<bool> failed{false};
  const auto first = [&](int parameter) {
    if (!failed && on_gradient) on_gradient(parameter);
  };
  crew->Run([&](size_t r) {
    networks[r]->set_share(weights[r]);
    results[r] = StepOf(r, batch, step, r == 0 ? std::function<void(int)>(first) : nullptr, beside);
    if (results[r].ok()) return;
    failed = true;
    // Without Abort the other devices would wait for this replica's gradients.
    for (const auto& part : group) part->Abort();
  });
}

absl::StatusOr<Network::Result> Replicas::Impl::Total() const {
  Network::Result total;
  absl::Status failed;
  for (const auto& result : results) {
    // ABORTED means that another replica failed, whose error has the reason.
    if (!result.ok() && (failed.ok() || absl::IsAborted(failed))) failed = result.status();
  }
  PSGD_RETURN_IF_ERROR(failed);
  for (const auto& result : results) Add(*result, &total);
  return total;
}

Replicas::Replicas(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Replicas::~Replicas() = default;

absl::StatusOr<int> BatchOfReplica(int batch, size_t replicas) {
  const int count = static_cast<int>(replicas);
  if (count > 0 && batch % count == 0) return batch / count;
  return InvalidArgumentError("a batch of ", batch, " does not divide among ", replicas,
                              " replicas; choose a data.batch (or data.micro_batch) that does, or "
                              "node.reduce: none, where each "
                              "has its own");
}

absl::Status CheckDevicesMeet(const std::vector<NetworkOptions>& options) {
  if (options.size() < 2) return absl::OkStatus();
  if (options[0].precision == Precision::kFp16) {
    return absl::InvalidArgumentError(
        "node.reduce: nccl does not go with --precision fp16; use bf16, or node.reduce: host");
  }
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<Backend*> members;
  for (const NetworkOptions& one : options) {
    BackendOptions backend;
    backend.device = one.device;
    backend.precision = one.precision;
    PSGD_ASSIGN_OR_RETURN(backends.emplace_back(),
                          LoadBackend(one.backend, one.plugin_dir, backend));
    members.push_back(backends.back().get());
  }
  return members[0]->MakeGroup(members).status();
}

absl::StatusOr<std::unique_ptr<Replicas>> Replicas::Create(
    const ModelConfig& model, const SampleShape& shape, int batch,
    const std::vector<NetworkOptions>& options, ReduceOn reduce, int turns) {
  const size_t count = options.size();
  PSGD_ASSIGN_OR_RETURN(const int part, BatchOfReplica(batch, count));
  auto impl = std::make_unique<Impl>();
  for (size_t r = 0; r < count; ++r) {
    NetworkOptions own = options[r];
    own.worker += static_cast<uint32_t>(r) << kReplicaShift;
    PSGD_ASSIGN_OR_RETURN(impl->networks.emplace_back(), Network::Create(model, shape, part, own));
  }
  const ModelSpec& spec = impl->networks[0]->spec();
  if (count > 1 && reduce == ReduceOn::kDevices) {
    std::vector<Network*> members;
    for (const auto& network : impl->networks) members.push_back(network.get());
    PSGD_ASSIGN_OR_RETURN(impl->group, Network::MakeGroup(members));
  } else if (count > 1) {
    for (int i = 0; i < spec.parameters_size(); ++i) {
      const size_t parts = impl->networks[0]->factor_rows(i) > 0 ? count : 1;
      impl->gradients.emplace_back(parts * impl->networks[0]->gradient(i).size());
    }
  }
  impl->turns = turns;
  for (int i = 0; i < spec.parameters_size(); ++i) {
    impl->statistic.push_back(spec.parameters(i).role() == ParameterSpec::STATISTIC);
    if (turns == 1) continue;
    const size_t parts = impl->factor_rows(i) > 0 ? static_cast<size_t>(turns) : 1;
    impl->sums.emplace_back(parts * impl->gradient(i).size());
  }
  impl->seen.assign(count, 0);
  impl->finished = std::vector<std::atomic<int>>(count);
  impl->weights.resize(count);
  impl->results.resize(count);
  impl->crew = std::make_unique<Crew>(count);
  return std::unique_ptr<Replicas>(new Replicas(std::move(impl)));
}

const ModelSpec& Replicas::spec() const { return impl_->networks[0]->spec(); }
int Replicas::batch() const {
  return impl_->networks[0]->batch() * static_cast<int>(impl_->size());
}
std::span<float> Replicas::parameter(int index) { return impl_->networks[0]->parameter(index); }
std::span<const float> Replicas::gradient(int index) const {
  return impl_->sums.empty() ? impl_->gradient(index) : impl_->sums[index];
}
Network* Replicas::device_network() {
  const auto& first = impl_->networks[0];
  const bool on_host = !impl_->gradients.empty() || !impl_->sums.empty();
  return !on_host && first->on_device() ? first.get() : nullptr;
}

int64_t Replicas::factor_rows(int index) const { return impl_->factor_rows(index) * impl_->turns; }
const std::vector<bool>& Replicas::hidden_matrices() const {
  return impl_->networks[0]->hidden_matrices();
}
void Replicas::InvalidateParameters() { ++impl_->version; }

absl::Status Replicas::MakeRoomAhead() {
  if (!impl_->networks[0]->on_device()) {
    return absl::UnimplementedError("kernels see the host's memory");
  }
  absl::Status made;
  for (const auto& network : impl_->networks) {
    if (made.ok()) made = network->MakeRoomAhead(/*on_host=*/network == impl_->networks[0]);
  }
  for (const auto& network : impl_->networks) {
    if (!made.ok()) network->GiveUpRoomAhead();
  }
  return made;
}
std::span<float> Replicas::next_parameter(int index) {
  return impl_->networks[0]->next_parameter(index);
}
// All replicas copy from the first network's host memory, where the parameters were decoded.
absl::Status Replicas::StageParameters() {
  for (const auto& network : impl_->networks) {
    PSGD_RETURN_IF_ERROR(network->StageParameters(*impl_->networks[0]));
  }
  return absl::OkStatus();
}
void Replicas::TakeStagedParameters() {
  for (const auto& network : impl_->networks) network->TakeStagedParameters();
}
float Replicas::loss_scale() const { return impl_->networks[0]->loss_scale(); }
const std::string& Replicas::note() const { return impl_->networks[0]->note(); }
const absl::Status& Replicas::recorded() const {
  const auto& networks = impl_->networks;
  const auto found = std::find_if(networks.begin(), networks.end(),
                                  [](const auto& network) { return !network->recorded().ok(); });
  return found == networks.end() ? networks[0]->recorded() : (*found)->recorded();
}

bool Replicas::stages() const { return impl_->networks[0]->stages(); }
bool Replicas::waits_by_parameter() const {
  return impl_->size() == 1 && impl_->networks[0]->waits_by_parameter();
}

absl::StatusOr<Network::Result> Replicas::Impl::Turn(const StepBatch& batch, uint64_t step,
                                                     const std::function<void(int)>& on_gradient,
                                                     const BesideStep& beside) {
  if (size() == 1) return StepOf(0, batch, step, on_gradient, beside);
  WeighReplicas(batch.labels);
  if (group.empty()) {
    MeetOnHost(batch, step, on_gradient, beside);
  } else {
    MeetOnDevices(batch, step, on_gradient, beside);
  }
  return Total();
}

// A gradient is final in the last turn.
absl::StatusOr<Network::Result> Replicas::Impl::AllTurns(
    const StepBatch& batch, uint64_t step, const std::function<void(int)>& on_gradient,
    const BesideStep& beside) {
  const auto parts = static_cast<size_t>(turns);
  const auto total = static_cast<float>(std::max<ptrdiff_t>(1, Counted(batch.labels)));
  Network::Result sum;
  for (int turn = 0; turn < turns; ++turn) {
    const bool last = turn + 1 == turns;
    StepBatch now = PartOf(batch, static_cast<size_t>(turn), parts);
    now.staged = turn > 0 || batch.staged;
    BesideStep own;
    std::optional<StepBatch> next;
    if (!last) {
      next = PartOf(batch, static_cast<size_t>(turn) + 1, parts);
    } else if (beside.next != nullptr) {
      next = PartOf(*beside.next, 0, parts);
    }
    if (next) own.next = &*next;
    if (turn == 0) own.bring = beside.bring;
    if (last) own.meanwhile = beside.meanwhile;
    const float share = static_cast<float>(Counted(now.labels)) / total;
    const auto take = [&](int parameter) {
      AddTurn(parameter, turn, share);
      if (last && on_gradient) on_gradient(parameter);
    };
    // Each turn draws its own dropout masks.
    const uint64_t key = step * parts + static_cast<uint64_t>(turn);
    PSGD_ASSIGN_OR_RETURN(const Network::Result result, Turn(now, key, take, own));
    Add(result, &sum);
  }
  return sum;
}

absl::StatusOr<Network::Result> Replicas::TrainStep(const StepBatch& batch, uint64_t step,
                                                    const std::function<void(int)>& on_gradient,
                                                    const BesideStep& beside) {
  return impl_->turns == 1 ? impl_->Turn(batch, step, on_gradient, beside)
                           : impl_->AllTurns(batch, step, on_gradient, beside);
}

absl::StatusOr<Network::Result> Replicas::Evaluate(const StepBatch& batch) {
  Impl& impl = *impl_;
  impl.crew->Run([&](size_t r) {
    impl.RenewParameters(r);
    impl.results[r] = impl.networks[r]->Evaluate(PartOf(batch, r, impl.size()));
  });
  impl.logits.clear();
  for (const auto& network : impl.networks) {
    impl.logits.insert(impl.logits.end(), network->logits().begin(), network->logits().end());
  }
  return impl.Total();
}

std::span<const float> Replicas::logits() const { return impl_->logits; }

}  // namespace psgd
