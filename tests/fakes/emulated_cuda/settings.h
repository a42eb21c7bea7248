// What a test may have the emulated device be, and what was asked of it.
#pragma once

#include <cudnn_graph.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace psgd::emulated {

// One of those that the emulated cuDNN offers for each convolution, in the order that it thinks
// best.
struct Engine {
  std::optional<cudnnBackendNumericalNote_t> note = {};
  bool plans = true;  // or finds, when it is asked for a plan, that it cannot
  int64_t workspace = 0;
  double error = 0;  // of its results, relative
};

struct Settings {
  size_t memory = size_t{8} << 30;  // of all devices together
  std::vector<Engine> engines = {
      {.note = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
      {.note = CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, .error = 0.1},
      {.note = CUDNN_NUMERICAL_NOTE_TENSOR_CORE, .workspace = 100, .error = 1e-4},
      {.note = CUDNN_NUMERICAL_NOTE_FFT, .error = 1e-5},
      {.note = CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, .error = 1e-4},
      {.note = CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, .error = 1e-3},
      {.plans = false},
      {.workspace = int64_t{1} << 40},
      {.workspace = 1000},
  };
  uint64_t convolutions = 0;  // that were run so far
};

// What the plugin exports as `psgd_emulated_settings`. REQUIRES, to change them: no device is in
// use.
using SettingsFunction = Settings* (*)();

// Those of the process, for the emulation's own sources.
Settings& GetSettings();

}  // namespace psgd::emulated
