// What a config's `data.target_kind` says.
#pragma once

#include "proto/config.pb.h"

namespace psgd {

// Whether samples may have targets of any kind, not only classes.
inline bool HasTargetKind(const DataConfig& data) {
  switch (data.format()) {
    case DataConfig::TABLE:
    case DataConfig::ARRAYS:
    case DataConfig::LIBSVM:
    case DataConfig::TEXT_CLASSES:
      return true;
    case DataConfig::IDX:  // whose files say it only if they have floats
      return data.target_kind() != DataConfig::AUTO;
    default:
      return data.format() == DataConfig::IMAGES && !data.images().labels().empty();
  }
}

// The kind that a loss is of.
inline DataConfig::TargetKind TargetKindOf(ModelConfig::Loss loss) {
  switch (loss) {
    case ModelConfig::SQUARED:
    case ModelConfig::SMOOTH_L1:
      return DataConfig::NUMBER;
    case ModelConfig::POISSON:
      return DataConfig::COUNT;
    case ModelConfig::SIGMOID:
      return DataConfig::LABELS;
    default:
      return DataConfig::CLASS;
  }
}

// The kind of a config's samples, if it names none. Labels of libsvm are classes under a sigmoid,
// for a sample has one.
inline DataConfig::TargetKind TargetKindOf(const Config& config) {
  const DataConfig::TargetKind kind = TargetKindOf(config.model().loss());
  const bool one = config.data().format() == DataConfig::LIBSVM;
  return one && kind == DataConfig::LABELS ? DataConfig::CLASS : kind;
}

// Whether samples have classes, so that an output is right or wrong. REQUIRES: defaults are
// resolved.
inline bool HasClasses(const DataConfig& data) {
  return data.target_kind() == DataConfig::AUTO || data.target_kind() == DataConfig::CLASS;
}

}  // namespace psgd
