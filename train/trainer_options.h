// The options with which a worker is started, and what follows from them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "data/open_once.h"
#include "engine/runtime/network.h"
#include "net/transport_security.h"
#include "proto/control.pb.h"
#include "train/gpu_devices.h"

namespace psgd {

struct TrainerOptions {
  std::string server;  // HOST:PORT of the control plane
  // As ControlClientOptions::find.
  std::function<absl::StatusOr<std::vector<std::string>>()> find_servers;
  std::string name;                                // of this process
  bool replaces = false;                           // an earlier process of this name
  std::shared_ptr<const Credentials> credentials;  // null: the server asks for none
  std::string backend = "onednn";                  // of the processor
  // One replica runs on each GPU; empty: replicas run on the processor. Replicas share each batch.
  std::vector<GpuDevice> gpus;
  std::string choices;              // of the engine for GPUs; see NetworkOptions
  std::string plugin_dir;           // of engines; empty: beside the program
  int replicas = 1;                 // on the processor
  int workers_here = 1;             // trainers that share this process
  DataOpener open_data = OpenData;  // which they may share, too
  int threads = 1;                  // of each of them
  Precision precision = Precision::kFp32;
  Duration connect_deadline = Milliseconds(60000);
  // How often a stop was asked for: once finishes the step, pushes the residual and leaves, twice
  // leaves at once.
  const std::atomic<int>* stops = nullptr;
  // When a stop was first asked for, and how long after that this worker must be gone.
  const std::atomic<Time>* stop_asked = nullptr;
  Duration drain_deadline = Milliseconds(30000);
  // Added to every step, to see what a slow worker does to the others.
  Duration step_delay{};
  std::string push_log;  // file that lists acknowledged pushes; empty: none
  Log log = NullLog();
};

// For people: "gpus 0 1 2, NAME" or "cpu, 2 threads".
std::string DeviceText(const TrainerOptions& options);

// A network for each replica; the run adds its seed and the worker's number.
std::vector<NetworkOptions> NetworksOf(const TrainerOptions& options);

}  // namespace psgd
