// Settings of the emulated device for tests, and a count of its work.
#pragma once

#include <cudnn_graph.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace psgd::emulated {

// An engine of the emulated cuDNN. As cuDNN, it takes aligned memory. So that tests see transposes
// and psgd's own kernel, it refuses, in backward passes in fp32, channels-last tensors with groups
// or dilations, and depthwise ones in every layout. (planned_test.cc says what cuDNN refuses.)
struct Engine {
  std::optional<cudnnBackendNumericalNote_t> note = {};
  bool plans = true;  // false: it fails to make a plan
  int64_t workspace = 0;
  double error = 0;            // relative error of its results
  double microseconds = 1000;  // of a launch, on the device
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
  int capability = 90;              // compute capability, as 75
  double launch_microseconds = 20;  // that the host takes for a launch outside of a graph
  uint64_t convolutions = 0;        // run so far
  uint64_t attentions = 0;          // run so far
  bool fuses_products = true;       // false: cublasLt has no algorithm
  bool adds_elsewhere = true;       // false: its algorithms add only to the old product
  uint64_t fused_products = 0;      // run so far
  uint64_t sums_in_16_bits = 0;     // products whose partial sums may have been rounded to 16 bits
};

// The type of `psgd_emulated_settings`, which the plugin exports.
// REQUIRES: settings change only while no device is in use.
using SettingsFunction = Settings* (*)();

// The process's settings, for the emulation's own sources.
Settings& GetSettings();

}  // namespace psgd::emulated
