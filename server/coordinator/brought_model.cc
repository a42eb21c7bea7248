#include "server/coordinator/brought_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/shard/placement.h"

namespace psgd {

BroughtModel::BroughtModel(const WorkerKey& from, ModelSpec model)
    : from_(from), model_(std::move(model)), weights_(std::make_shared<GivenWeights>()) {}

bool BroughtModel::IsFrom(const WorkerKey& key, const ModelSpec& model) const {
  return from_.worker() == key.worker() && from_.incarnation() == key.incarnation() &&
         model_.SerializeAsString() == model.SerializeAsString();
}

absl::Status BroughtModel::Take(const GiveWeightsRequest& part) {
  if (part.parameter() >= static_cast<uint32_t>(model_.parameters_size())) {
    return InvalidArgumentError("first weights of parameter ", part.parameter(), ", of a model of ",
                                model_.parameters_size());
  }
  const ParameterSpec& parameter = model_.parameters(static_cast<int>(part.parameter()));
  const uint64_t elements = ElementsOf(parameter), count = part.values().size() / sizeof(float);
  if (part.values().size() % sizeof(float) != 0 || part.offset() > elements ||
      count > elements - part.offset()) {
    return InvalidArgumentError("first weights of ", parameter.name(), " for ",
                                part.values().size(), " bytes from element ", part.offset(),
                                ", and it has ", elements, " elements");
  }
  std::vector<float>& weights = (*weights_)[parameter.name()];
  weights.resize(elements);
  std::memcpy(weights.data() + part.offset(), part.values().data(), part.values().size());
  return absl::OkStatus();
}

bool BroughtModel::complete() const { return CheckGiven(model_, *weights_).ok(); }

ModelSpec WithStartOf(const ModelSpec& run, ModelSpec model) {
  model.set_name(run.name());
  const int both = std::min(run.parameters_size(), model.parameters_size());
  for (int i = 0; i < both; ++i) {
    *model.mutable_parameters(i)->mutable_initializer() = run.parameters(i).initializer();
  }
  return model;
}

}  // namespace psgd
