#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

absl::Status Lower(const KeepLargest&, const Context&) {
  return absl::UnimplementedError(
      "model.meprop is not there on GPUs: train on processors (--cpu), or leave it out");
}

}  // namespace psgd::cudnn
