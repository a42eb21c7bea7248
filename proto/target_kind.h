// What a config's `data.target_kind` says.
#pragma once

#include "proto/config.pb.h"

namespace psgd {

// Whether samples are rows, which have targets of a kind.
inline bool HasTargetKind(DataConfig::Format format) {
  return format == DataConfig::TABLE || format == DataConfig::ARRAYS;
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

// Whether samples have classes, so that an output is right or wrong. REQUIRES: defaults are
// resolved.
inline bool HasClasses(const DataConfig& data) {
  return data.target_kind() == DataConfig::AUTO || data.target_kind() == DataConfig::CLASS;
}

}  // namespace psgd
