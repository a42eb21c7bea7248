#include "experiment/record/weights_collector.h"

#include <cstring>

#include "common/finite.h"
#include "data/safetensors.h"
#include "server/shard/placement.h"
#include "server/shard/snapshot.h"

namespace psgd {

absl::Status WeightsCollector::SetModel(const ModelSpec& model, const Config& config) {
  PSGD_RETURN_IF_ERROR(ValidateModel(model));
  model_ = model;
  config_ = config;
  values_.clear();
  for (const ParameterSpec& parameter : model.parameters()) {
    values_.emplace_back(ElementsOf(parameter));
  }
  received_.assign(values_.size(), 0);
  return absl::OkStatus();
}

WeightsCollector WeightsCollector::Empty(const LoadedCheckpoint& checkpoint) {
  WeightsCollector collector;
  collector.model_ = checkpoint.manifest().model();
  collector.config_ = checkpoint.manifest().config();
  return collector;
}

void WeightsCollector::AddAll(const Bytes& bytes) {
  std::vector<float>& values = values_.emplace_back(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  received_.push_back(values.size());
}

WeightsCollector WeightsCollector::FromCheckpoint(const LoadedCheckpoint& checkpoint) {
  WeightsCollector collector = Empty(checkpoint);
  for (const ParameterSpec& parameter : collector.model_.parameters()) {
    collector.AddAll(checkpoint.Weights(parameter.name()));
  }
  return collector;
}

absl::StatusOr<WeightsCollector> WeightsCollector::AverageOf(const LoadedCheckpoint& checkpoint) {
  WeightsCollector collector = Empty(checkpoint);
  if (collector.config_.train().average() == 0) {
    return FailedPreconditionError("checkpoint ", checkpoint.manifest().id(),
                                   " has no average of the weights: its run did not keep one; set "
                                   "train.average, as 0.999, and train");
  }
  for (const ParameterSpec& parameter : collector.model_.parameters()) {
    collector.AddAll(checkpoint.State(parameter.name(), kAverageState));
  }
  return collector;
}

absl::Status WeightsCollector::Add(const WeightsChunk& chunk) {
  if (chunk.has_model()) return SetModel(chunk.model(), chunk.config());
  if (chunk.parameter() >= values_.size()) {
    return DataLossError("the server sent values of parameter ", chunk.parameter(),
                         ", which its model does not have");
  }
  std::vector<float>& values = values_[chunk.parameter()];
  const uint64_t count = chunk.values().size() / sizeof(float);
  if (chunk.offset() > values.size() || count > values.size() - chunk.offset()) {
    return DataLossError("the server sent values beyond the end of ",
                         model_.parameters(static_cast<int>(chunk.parameter())).name());
  }
  std::memcpy(values.data() + chunk.offset(), chunk.values().data(), count * sizeof(float));
  received_[chunk.parameter()] += count;
  return absl::OkStatus();
}

absl::Status WeightsCollector::Complete() const {
  for (size_t p = 0; p < values_.size(); ++p) {
    if (received_[p] != values_[p].size()) {
      return DataLossError("only ", received_[p], " of ", values_[p].size(), " values of ",
                           model_.parameters(static_cast<int>(p)).name(),
                           " came; is one of the server's shards down?");
    }
  }
  return absl::OkStatus();
}

absl::Status WeightsCollector::CheckFinite() const {
  for (size_t p = 0; p < values_.size(); ++p) {
    const auto bad = FirstNotFinite(values_[p]);
    if (!bad) continue;
    return OutOfRangeError("training diverged: the weights of ",
                           model_.parameters(static_cast<int>(p)).name(),
                           " are not all finite numbers (element ", *bad, " is ", values_[p][*bad],
                           "); take those of an earlier checkpoint (ps-ctl checkpoints RUN_DIR "
                           "lists them; --checkpoint ID)");
  }
  return absl::OkStatus();
}

absl::Status WeightsCollector::Write(const std::string& path) const {
  PSGD_RETURN_IF_ERROR(Complete());
  std::vector<NamedTensor> tensors;
  for (size_t p = 0; p < values_.size(); ++p) {
    const ParameterSpec& parameter = model_.parameters(static_cast<int>(p));
    tensors.push_back(
        {parameter.name(), {parameter.shape().begin(), parameter.shape().end()}, values_[p]});
  }
  return WriteSafetensors(path, tensors,
                          {{"format", "pt"}, {"model", model_.name()}, {"run", config_.name()}});
}

}  // namespace psgd
