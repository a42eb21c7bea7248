// Whether a model has enough slices for local.fragments.
#pragma once

#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

inline absl::Status CheckFragments(const LocalConfig& local, const Placement& placement) {
  if (local.fragments() <= placement.slices_size()) return absl::OkStatus();
  return InvalidArgumentError(
      "local.fragments is ", local.fragments(), ", and the model has only ",
      placement.slices_size(),
      " slices, of which each exchange carries at least one: lower local.fragments, or set "
      "cluster.slice, the most bytes of a slice, lower");
}

}  // namespace psgd
