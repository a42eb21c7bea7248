// Runs a graph on a backend. Create makes kernels and plans memory; Bind sets addresses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/memory_plan.h"
#include "engine/runtime/backend.h"

namespace psgd {

struct ExternalMemory {
  TensorId tensor = kNoTensor;
  void* data = nullptr;
};

// Not thread-safe. The graph and the backend must outlive it.
class Executor {
 public:
  using Around = std::function<absl::Status(int)>;

  // Takes no memory for tensors yet.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Graph& graph, Backend* backend);

  // Temporary bytes are needed only during Run, so executors that do not run together may share
  // them. Bind allocates persistent bytes for this executor alone.
  const MemoryPlan& plan() const { return plan_; }

  // Backend::note of the kernels.
  const std::string& note() const { return note_; }

  // Sets the addresses of the temporary memory and of all external tensors. REQUIRES: called once,
  // before Run.
  absl::Status Bind(void* temporary, const std::vector<ExternalMemory>& externals);

  // Runs every node in order, and calls before(index of the node) and after(index of the node)
  // around each. Either may be null; its error ends the run. On a device the second run is recorded
  // and later runs replay it: replays call neither, but they repeat the downloads that `after`
  // started. If recording fails, nodes run one by one, and both are called again.
  absl::Status Run(const Step& step, const Around& before, const Around& after);
  // OK before the second run and while runs are replayed. Otherwise the error of the recording.
  const absl::Status& recorded() const { return recorded_; }

  // The seconds that each node's kernel takes, the least of `runs`; 0: the node needs no kernel. On
  // a device each kernel is recorded and replayed alone, so what the tensors hold afterwards is of
  // no use. REQUIRES: Run ran.
  absl::StatusOr<std::vector<double>> TimeNodes(const Step& step, int runs);

  // Kernel::fused of the node's kernel; null, too, if it has no kernel.
  const FusedWork* fused(int node) const {
    return kernels_[node] == nullptr ? nullptr : kernels_[node]->fused();
  }

  // Fills each buffer with NaN before its first write, so a kernel that leaves elements out is
  // found. Not in replays. For tests.
  void set_poison(bool poison) { poison_ = poison; }

 private:
  Executor(const Graph* graph, Backend* backend) : graph_(graph), backend_(backend) {}
  absl::Status RunNodes(const Step& step, const Around& before, const Around& after);
  absl::Status Poison(int node);
  absl::StatusOr<std::vector<double>> TimeOnHost(const Step& step, int runs);
  absl::StatusOr<double> TimeOnDevice(const Step& step, int node, int runs);

  const Graph* const graph_;
  Backend* const backend_;
  MemoryPlan plan_;
  std::string note_;
  std::unique_ptr<DeviceMemory> persistent_;
  Buffers addresses_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // by node; null: none is needed
  bool poison_ = false;
  bool ran_ = false;
  std::unique_ptr<Recording> recording_;
  absl::Status recorded_;
};

}  // namespace psgd
