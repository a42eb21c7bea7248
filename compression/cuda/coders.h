// All codecs that have a twin on a device.
#pragma once

#include <variant>

#include "compression/cuda/blocks.h"
#include "compression/cuda/chunked.h"
#include "compression/cuda/dgc.h"
#include "compression/cuda/half.h"
#include "compression/cuda/natural.h"
#include "compression/cuda/none.h"
#include "compression/cuda/onebit.h"
#include "compression/cuda/powersgd.h"
#include "compression/cuda/quantized.h"
#include "compression/cuda/randomk.h"
#include "compression/cuda/sign.h"
#include "compression/cuda/ternary.h"
#include "compression/cuda/topk.h"

namespace psgd::cuda {

template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const TwinOptions& options) {
  return std::visit(
      [&]<typename Twin>(const Twin& twin) -> std::unique_ptr<Coder<Queue>> {
        return std::make_unique<CoderOf<Twin, Queue>>(twin, options.elements);
      },
      options.codec);
}

}  // namespace psgd::cuda
