#include "experiment/launch/predictions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/csv.h"
#include "data/batch.h"
#include "data/new_samples.h"
#include "data/preparation.h"
#include "data/read_user_data.h"
#include "data/row_targets.h"
#include "engine/runtime/replicas.h"
#include "train/network_data.h"
#include "train/predict.h"

namespace psgd {
namespace {

double Probability(double log_odds) { return 1 / (1 + std::exp(-log_odds)); }

std::string Number(double value) { return absl::StrFormat("%.7g", value); }

// Formats the outputs for one sample.
class OutputFormat {
 public:
  OutputFormat(const Config& config, const Preparation& preparation)
      : preparation_(preparation),
        kind_(KindOf(config.data().target_kind())),
        loss_(config.model().loss()) {}

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const Preparation::Target& target : preparation_.targets()) {
      names.push_back(CsvField(target.name()));
    }
    if (!names.empty()) return names;
    const bool probable = loss_ == ModelConfig::CROSS_ENTROPY || loss_ == ModelConfig::SIGMOID;
    return {"class", probable ? "probability" : "output"};
  }

  std::vector<std::string> Fields(std::span<const float> outputs) const {
    if (preparation_.targets().empty()) return ClassFields(outputs);
    std::vector<std::string> fields;
    for (int t = 0; t < preparation_.targets_size(); ++t) {
      fields.push_back(Number(
          ValueOf(outputs[static_cast<size_t>(t)], ScaleOf(preparation_.targets(t).scale()))));
    }
    return fields;
  }

 private:
  double ValueOf(double output, const NumberScale& scale) const {
    switch (kind_) {
      case Targets::Kind::kCount:
        return std::exp(output);
      case Targets::Kind::kLabel:
        return Probability(output);
      default:
        return output * scale.deviation + scale.mean;
    }
  }

  std::vector<std::string> ClassFields(std::span<const float> outputs) const {
    // A network from a file may have more outputs than there are classes.
    const auto known = outputs.first(
        std::min(outputs.size(), static_cast<size_t>(preparation_.shape().classes())));
    const auto best = std::ranges::max_element(known);
    const auto chosen = static_cast<int>(best - known.begin());
    const std::string name = chosen < preparation_.classes_size()
                                 ? CsvField(preparation_.classes(chosen))
                                 : absl::StrCat(chosen);
    double value = *best;
    if (loss_ == ModelConfig::SIGMOID) value = Probability(value);
    if (loss_ == ModelConfig::CROSS_ENTROPY) {
      double sum = 0;
      for (const float output : outputs) sum += std::exp(static_cast<double>(output) - value);
      value = 1 / sum;
    }
    return {name, Number(value)};
  }

  const Preparation& preparation_;
  const Targets::Kind kind_;
  const ModelConfig::Loss loss_;
};

}  // namespace

absl::StatusOr<Predictions> PredictNew(const WeightsCollector& weights, const std::string& path,
                                       const EvaluateOptions& options) {
  PSGD_RETURN_IF_ERROR(weights.Complete());
  const Preparation& preparation = weights.model().preparation();
  PSGD_RETURN_IF_ERROR(CheckHasNetwork(weights));
  PSGD_ASSIGN_OR_RETURN(const DataConfig config, DataOf(weights.config()));
  PSGD_ASSIGN_OR_RETURN(const NewSamples data, OpenNewSamples(config, preparation, path));
  PSGD_ASSIGN_OR_RETURN(const PaddingNote padding,
                        CheckPadding(weights.config(), *data.samples, path + ": sample"));
  PSGD_ASSIGN_OR_RETURN(const auto network, NetworkWith(weights, data.samples->shape(), options));
  const OutputFormat format(weights.config(), preparation);
  std::vector<std::string> names = format.Names();
  if (!data.files.empty()) names.insert(names.begin(), "file");
  Predictions made;
  made.notes = data.notes;
  if (!padding.text.empty()) made.notes.push_back(padding.text);
  made.csv = absl::StrCat(absl::StrJoin(names, ","), "\n");
  EvaluationBatches batches(data.samples, network->batch());
  const auto take = [&](std::span<const float> outputs) {
    if (!data.files.empty()) absl::StrAppend(&made.csv, CsvField(data.files[made.samples]), ",");
    absl::StrAppend(&made.csv, absl::StrJoin(format.Fields(outputs), ","), "\n");
    ++made.samples;
  };
  // Images are read only now.
  PSGD_RETURN_IF_ERROR(ReadUserData(
      [&] { return Predict(*network, batches, data.samples->size(), options.threads, take); }));
  return made;
}

}  // namespace psgd
