#include "data/preparation.h"

#include <cstddef>

namespace psgd {
namespace {

// The record is stored with the model's parameters in one request, for which etcd allows 1.5 MiB.
constexpr size_t kMostPreparationBytes = size_t{1} << 20;

}  // namespace

Preparation::Scale RecordOf(const NumberScale& scale) {
  Preparation::Scale record;
  record.set_mean(scale.mean);
  record.set_deviation(scale.deviation);
  return record;
}

NumberScale ScaleOf(const Preparation::Scale& record) {
  return {record.mean(), record.deviation() > 0 ? record.deviation() : 1};
}

void RecordClasses(const std::vector<std::string>& names, Preparation* preparation) {
  preparation->mutable_classes()->Assign(names.begin(), names.end());
}

void CompletePreparation(const SampleShape& shape, const Targets& targets,
                         Preparation* preparation) {
  Preparation::Shape& record = *preparation->mutable_shape();
  record.set_channels(shape.channels);
  record.set_height(shape.height);
  record.set_width(shape.width);
  record.set_classes(shape.classes);
  record.set_length(shape.length);
  record.set_source(shape.source);
  record.set_entries(shape.entries);
  record.set_vocabulary(shape.vocabulary);
  record.set_targets(shape.targets);
  for (size_t t = 0; t < targets.names.size(); ++t) {
    Preparation::Target& target = *preparation->add_targets();
    target.set_name(targets.names[t]);
    *target.mutable_scale() = RecordOf(targets.scales[t]);
  }
  if (preparation->ByteSizeLong() <= kMostPreparationBytes) return;
  const Preparation::Shape kept = record;
  preparation->Clear();
  *preparation->mutable_shape() = kept;
  preparation->set_too_large(true);
}

std::string TooLargeText() {
  return "the names of the data's categories and classes take more than 1 MiB, so checkpoints keep "
         "no record of them, and ps-ctl predict needs it; use shorter names, or fewer columns of "
         "categories (data.columns)";
}

SampleShape ShapeOf(const Preparation& preparation) {
  const Preparation::Shape& record = preparation.shape();
  return {.channels = record.channels(),
          .height = record.height(),
          .width = record.width(),
          .classes = record.classes(),
          .length = record.length(),
          .source = record.source(),
          .entries = record.entries(),
          .vocabulary = record.vocabulary(),
          .targets = record.targets()};
}

}  // namespace psgd
