#include "engine/runtime/replicas.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/runtime/backend.h"
#include "engine/runtime/crew.h"
#include "engine/runtime/plugin.h"

namespace psgd {
namespace {

// The worker keys dropout. Shifted replica numbers give each replica its own masks.
constexpr int kReplicaShift = 20;
// The count of a replica that failed, so that the first replica does not wait for it.
constexpr int kAllGradients = std::numeric_limits<int>::max();

template <typename T>
std::span<const T> PartOf(std::span<const T> whole, size_t part, size_t parts) {
  const size_t each = whole.size() / parts;
  return whole.subspan(part * each, each);
}

}  // namespace

struct Replicas::Impl {
  std::vector<std::unique_ptr<GroupPart>> group;  // empty: gradients meet on the host
  std::vector<std::unique_ptr<Network>> networks;
  // Sums over the replicas, by parameter. Empty: the first network has the sums.
  std::vector<std::vector<float>> gradients;
  std::vector<bool> statistic;  // by parameter
  std::vector<uint64_t> seen;   // by replica: the version of its parameters
  uint64_t version = 1;
  std::vector<std::atomic<int>> finished;  // by replica: final gradients of the present step
  std::vector<float> weights;              // by replica: its weight in the sum of gradients
  std::vector<absl::StatusOr<Network::Result>> results;
  std::vector<float> logits;   // of the last evaluation
  std::unique_ptr<Crew> crew;  // last, so that its threads end before the members they use

  size_t size() const { return networks.size(); }
  StepBatch Part(const StepBatch& batch, size_t replica) const;
  // Runs the step of one replica, on the replica's thread.
  absl::StatusOr<Network::Result> StepOf(size_t replica, const StepBatch& batch, uint64_t step,
                                         const std::function<void(int)>& on_gradient,
                                         const BesideStep& beside);
  void RenewParameters(size_t replica);
  void WeighReplicas(std::span<const int32_t> labels);
  void AddUp(int parameter);
  void Stack(int parameter);
  // Run every replica's step on its part of the batch and fill `results`.
  void MeetOnHost(const StepBatch& batch, uint64_t step,
                  const std::function<void(int)>& on_gradient, const BesideStep& beside);
  void MeetOnDevices(const StepBatch& batch, uint64_t step,
                     const std::function<void(int)>& on_gradient, const BesideStep& beside);
  absl::StatusOr<Network::Result> Total() const;
};

StepBatch Replicas::Impl::Part(const StepBatch& batch, size_t replica) const {
  const NetworkInput input = {PartOf(batch.input.pixels, replica, size()),
                              PartOf(batch.input.tokens, replica, size()),
                              PartOf(batch.input.values, replica, size())};
  return {input, PartOf(batch.labels, replica, size()), batch.staged,
          PartOf(batch.targets, replica, size())};
}

absl::StatusOr<Network::Result> Replicas::Impl::StepOf(size_t replica, const StepBatch& batch,
                                                       uint64_t step,
                                                       const std::function<void(int)>& on_gradient,
                                                       const BesideStep& beside) {
  RenewParameters(replica);
  BesideStep own = beside;
  if (replica > 0) own.meanwhile = nullptr;  // replica 0 runs on the caller's thread
  std::optional<StepBatch> part_of_next;
  if (beside.next != nullptr) own.next = &part_of_next.emplace(Part(*beside.next, replica));
  return networks[replica]->TrainStep(Part(batch, replica), step, on_gradient, own);
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
  const auto counted = [](std::span<const int32_t> part) {
    return std::count_if(part.begin(), part.end(), [](int32_t label) { return label >= 0; });
  };
  const auto total = std::max<ptrdiff_t>(1, counted(labels));
  for (size_t r = 0; r < size(); ++r) {
    weights[r] = static_cast<float>(counted(PartOf(labels, r, size()))) / static_cast<float>(total);
  }
}

// Factors cannot be added, so the rows of all replicas are stacked.
void Replicas::Impl::Stack(int parameter) {
  const auto inputs = static_cast<size_t>(networks[0]->spec().parameters(parameter).shape(1));
  float* out = gradients[parameter].data();
  for (size_t r = 0; r < size(); ++r) {
    const std::span<const float> part = networks[r]->gradient(parameter);
    const size_t width = part.size() / static_cast<size_t>(networks[r]->factor_rows(parameter));
    for (size_t i = 0; i < part.size(); ++i) {
      *out++ = i % width < inputs ? part[i] : weights[r] * part[i];
    }
  }
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
  for (const auto& result : results) {
    total.loss_sum += result->loss_sum;
    total.correct += result->correct;
    total.counted += result->counted;
    total.repeated += result->repeated;
  }
  return total;
}

Replicas::Replicas(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Replicas::~Replicas() = default;

absl::StatusOr<int> BatchOfReplica(int batch, size_t replicas) {
  const int count = static_cast<int>(replicas);
  if (count > 0 && batch % count == 0) return batch / count;
  return absl::InvalidArgumentError(absl::StrCat(
      "a batch of ", batch, " does not divide among ", replicas,
      " replicas; choose a data.batch that does, or node.reduce: none, where each has its own"));
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
    const ModelConfig& model, const InputShape& shape, int batch,
    const std::vector<NetworkOptions>& options, ReduceOn reduce) {
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
      impl->statistic.push_back(spec.parameters(i).role() == ParameterSpec::STATISTIC);
    }
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
  return impl_->gradients.empty() ? impl_->networks[0]->gradient(index) : impl_->gradients[index];
}
Network* Replicas::device_network() {
  const auto& first = impl_->networks[0];
  return impl_->gradients.empty() && first->on_device() ? first.get() : nullptr;
}

int64_t Replicas::factor_rows(int index) const {
  return impl_->networks[0]->factor_rows(index) * static_cast<int64_t>(impl_->size());
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

absl::StatusOr<Network::Result> Replicas::TrainStep(const StepBatch& batch, uint64_t step,
                                                    const std::function<void(int)>& on_gradient,
                                                    const BesideStep& beside) {
  Impl& impl = *impl_;
  if (impl.size() == 1) return impl.StepOf(0, batch, step, on_gradient, beside);
  impl.WeighReplicas(batch.labels);
  if (impl.group.empty()) {
    impl.MeetOnHost(batch, step, on_gradient, beside);
  } else {
    impl.MeetOnDevices(batch, step, on_gradient, beside);
  }
  return impl.Total();
}

absl::StatusOr<Network::Result> Replicas::Evaluate(const StepBatch& batch) {
  Impl& impl = *impl_;
  impl.crew->Run([&](size_t r) {
    impl.RenewParameters(r);
    impl.results[r] = impl.networks[r]->Evaluate(impl.Part(batch, r));
  });
  impl.logits.clear();
  for (const auto& network : impl.networks) {
    impl.logits.insert(impl.logits.end(), network->logits().begin(), network->logits().end());
  }
  return impl.Total();
}

std::span<const float> Replicas::logits() const { return impl_->logits; }

}  // namespace psgd
