// Runs a graph on a backend: kernels made and memory planned by Create, addresses bound by Bind.
#pragma once

#include <functional>
#include <memory>
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
  using After = std::function<absl::Status(int)>;

  // Takes no memory for tensors yet.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Graph& graph, Backend* backend);

  // Its temporary bytes are needed while it runs; executors that do not run together may share
  // them. Its persistent bytes it keeps to itself, from Bind on.
  const MemoryPlan& plan() const { return plan_; }

  // Says where the temporary memory and every external tensor lie. REQUIRED once, before Run.
  absl::Status Bind(void* temporary, const std::vector<ExternalMemory>& externals);

  // Runs every node in order, and after each calls after(index of the node), which may be null and
  // whose error ends the run, or the recording: then nodes are run one by one, and it is called
  // again. On a device the second run is recorded, and from then on replayed: `after` is called no
  // more, and the downloads that it started are part of each run.
  absl::Status Run(const Step& step, const After& after);
  // OK before the second run and while runs are replayed; else why they are not.
  const absl::Status& recorded() const { return recorded_; }

  // Fills what each node is about to write for the first time with NaN, so that a kernel that
  // leaves something out cannot pass. Replays write over what is there. For tests.
  void set_poison(bool poison) { poison_ = poison; }

 private:
  Executor(const Graph* graph, Backend* backend) : graph_(graph), backend_(backend) {}
  absl::Status RunNodes(const Step& step, const After& after);
  absl::Status Poison(int node);

  const Graph* const graph_;
  Backend* const backend_;
  MemoryPlan plan_;
  std::unique_ptr<DeviceMemory> persistent_;
  Buffers addresses_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // one a node, null where none is needed
  bool poison_ = false;
  bool ran_ = false;
  std::unique_ptr<Recording> recording_;
  absl::Status recorded_;
};

}  // namespace psgd
