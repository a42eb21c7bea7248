#include "engine/graph/model_spec.h"

namespace psgd {
namespace {

Initializer MakeInitializer(const Initial& initial) {
  Initializer made;
  const float center = static_cast<float>(initial.center);
  const float spread = static_cast<float>(initial.spread);
  switch (initial.kind) {
    case Initial::Kind::kConstant:
      made.mutable_constant()->set_value(center);
      break;
    case Initial::Kind::kUniform:
      made.mutable_uniform()->set_low(center - spread);
      made.mutable_uniform()->set_high(center + spread);
      break;
    case Initial::Kind::kNormal:
      made.mutable_normal()->set_mean(center);
      made.mutable_normal()->set_stddev(spread);
      break;
    case Initial::Kind::kGiven:
      made.mutable_given()->set_checksum(initial.checksum);
      break;
  }
  return made;
}

}  // namespace

ModelSpec MakeModelSpec(const std::string& name, const Graph& graph) {
  ModelSpec model;
  model.set_name(name);
  for (const Parameter& parameter : graph.parameters) {
    const Tensor& tensor = graph.tensors[parameter.value];
    ParameterSpec* spec = model.add_parameters();
    spec->set_name(tensor.name);
    spec->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    spec->set_role(parameter.statistic ? ParameterSpec::STATISTIC : ParameterSpec::TRAINED);
    *spec->mutable_initializer() = MakeInitializer(parameter.initial);
    spec->set_decay(parameter.decay);
    spec->set_sparse(parameter.sparse);
  }
  return model;
}

bool IsSameNetwork(const ModelSpec& a, const ModelSpec& b) {
  const auto network = [](ModelSpec model) {
    model.clear_preparation();
    return model.SerializeAsString();
  };
  return network(a) == network(b);
}

}  // namespace psgd
