#include "experiment/preflight.h"

#include "compression/policy.h"
#include "data/open_data.h"
#include "engine/model_spec.h"
#include "engine/zoo/zoo.h"
#include "worker/evaluate.h"

namespace psgd {

absl::Status CheckTrainable(const Config& config) {
  PSGD_ASSIGN_OR_RETURN(const DataSets data, OpenData(config.data(), config.seed()));
  PSGD_ASSIGN_OR_RETURN(const ModelGraph model,
                        BuildModel(config.model(), InputShapeOf(data.shape), config.data().batch(), Mode::kTrain));
  return CheckRules(config.compression(), MakeModelSpec(ModelName(config.model()), model.graph));
}

}  // namespace psgd
