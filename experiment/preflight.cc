#include "experiment/preflight.h"

#include "absl/strings/str_cat.h"
#include "compression/policy.h"
#include "data/open_data.h"
#include "engine/model_spec.h"
#include "engine/planned_network.h"
#include "engine/zoo/zoo.h"
#include "worker/evaluate.h"

namespace psgd {
namespace {

absl::Status CheckLabels(const DataConfig& config, const SampleShape& shape,
                         const ModelGraph& model) {
  const auto taken = static_cast<size_t>(ElementCount(model.graph.shape(model.labels)));
  const size_t given = shape.labels() * static_cast<size_t>(config.batch());
  if (taken == given) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the model takes ", taken, " labels a batch, and data.format gives ", given,
      taken > given ? ": a model of pixels, as unet, needs data.format: segmentation"
                    : ": labels of pixels need a model of pixels, as unet"));
}

}  // namespace

absl::Status CheckTrainable(const Config& config) {
  PSGD_ASSIGN_OR_RETURN(const DataSets data, OpenData(config.data(), config.seed()));
  PSGD_ASSIGN_OR_RETURN(const ModelGraph model,
                        BuildTrainingGraph(config.model(), InputShapeOf(data.shape), config.data().batch()));
  PSGD_RETURN_IF_ERROR(CheckLabels(config.data(), data.shape, model));
  return CheckRules(config.compression(), MakeModelSpec(ModelName(config.model()), model.graph));
}

}  // namespace psgd
