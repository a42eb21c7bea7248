// What a loss runs over on the device.
#pragma once

#include "engine/cudnn/lowering.h"

namespace psgd::cudnn {

// The usual layout has the classes of a place side by side: channels-last of images, else the last
// axis.
struct Places {
  Places(const Lowering& l, TensorId logits)
      : classes(l.shape(logits).size() == 4 ? l.shape(logits)[1] : l.shape(logits).back()),
        rows(l.elements(logits) / classes) {}

  int64_t classes;
  int64_t rows;
};

}  // namespace psgd::cudnn
