// The codecs' options in plain numbers, for the codecs and for their twins on a device. No
// protobuf, because the plugin has none. No Abseil: nvcc reads this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "compression/sparse/sparse_layout.h"

namespace psgd {

// Options of the codec of the same name; see its header.
struct NoneTwin {};
struct HalfTwin {
  bool brain = false;  // bf16
};
struct OnebitTwin {
  uint32_t block = 0;
};
struct SignTwin {};
struct SignumTwin {
  float momentum = 0;
};
struct NaturalTwin {};
struct TernaryTwin {
  double clip = 0;
};
struct QuantizedTwin {
  uint32_t block = 0;
  uint32_t bits = 8;    // levels are below 2^(bits - 1)
  bool packed = false;  // codes of `bits` bits (qsgd.h); else bytes (int8.h)
  bool l2 = false;
  bool stochastic = true;
};
struct TopkTwin {
  double density = 0;
  bool sampled = false;
  ValueCoding values = ValueCoding::kFloat;
};
struct ThresholdTwin {
  float tau = 0;
};
struct DgcTwin {
  double density = 0;
  float momentum = 0;
  double limit = 0;  // on this slice's norm; 0: none
  uint64_t warmup = 0;
};
struct RandomkTwin {
  double density = 0;
};
struct BlocksTwin {
  double density = 0;
  uint32_t block = 0;
};
struct ChunkedTwin {
  uint32_t chunk = 0;
  uint32_t keep = 0;
  uint32_t bits = 0;
};

struct PowersgdTwin {
  uint32_t rank = 0;                          // 0: the slice travels as binary16
  uint64_t rows = 0, columns = 0, first = 0;  // as in matrix_view.h
};

using TwinCodec = std::variant<NoneTwin, HalfTwin, OnebitTwin, SignTwin, SignumTwin, NaturalTwin,
                               TernaryTwin, QuantizedTwin, TopkTwin, ThresholdTwin, DgcTwin,
                               RandomkTwin, BlocksTwin, ChunkedTwin, PowersgdTwin>;

struct TwinOptions {
  TwinCodec codec;
  uint32_t elements = 0;
  size_t state_arrays = 0;      // see Codec::state_arrays
  bool keeps_residual = false;  // what is left out is added to the next gradient
  float residual_decay = 1;
};

}  // namespace psgd
