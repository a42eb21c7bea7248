// The table of codecs that have a twin on a device. Each twin is in the header of its name, which a
// .cu file instantiates for streams, and a test for the host loops.
#pragma once

#include <memory>
#include <variant>

#include "compression/cuda/coder.h"
#include "compression/cuda/options.h"

namespace psgd::cuda {

template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const NoneTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const HalfTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const OnebitTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const SignTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const SignumTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const NaturalTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const TernaryTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const QuantizedTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const TopkTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const ThresholdTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const DgcTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const RandomkTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const BlocksTwin& twin, uint32_t elements);
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const PowersgdTwin& twin, uint32_t elements);

template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoderFor(const TwinOptions& options) {
  return std::visit([&](const auto& twin) { return MakeCoder<Queue>(twin, options.elements); },
                    options.codec);
}

}  // namespace psgd::cuda
