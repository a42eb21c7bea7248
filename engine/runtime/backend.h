// A backend computes a graph: it makes a kernel for every node. There are several twins
// (reference/, onednn/, cudnn/). All but `reference` are plugins (engine/runtime/plugin.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/element_update.h"
#include "common/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/memory_plan.h"
#include "engine/graph/precision.h"

namespace psgd {

// The values that change from one run of the kernels to the next.
struct Step {
  uint64_t number = 0;             // keys the dropout masks
  uint64_t parameter_version = 0;  // grows whenever parameters were written
  float loss_scale = 1;            // kFp16 only: multiplies the gradient of the loss
  // The run is recorded for replays, so kernels always renew what depends on parameters alone.
  bool recorded = false;
};

// What a kernel does if it is not just its node, for reports of times.
struct FusedWork {
  std::vector<int> nodes;         // that it computes, wholly or in part
  std::vector<TensorId> tensors;  // that it reads or writes, each once; if both: twice
};

// The work of one node. Not thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Null: the work of its node. Otherwise it also computes other nodes, or leaves a part to them.
  virtual const FusedWork* fused() const { return nullptr; }
  // Sets the addresses of the buffers. Called once, before the first Run. `buffers` outlives the
  // kernel.
  virtual void Bind(const Buffers& buffers) = 0;
  virtual absl::Status Run(const Step& step) = 0;
};

// Memory of a backend's device, aligned for the device. The destructor frees it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;
};

// A transfer that runs beside the kernels.
class Copy {
 public:
  virtual ~Copy() = default;
  // Whether Wait would return at once. False may be late.
  virtual bool Done() const = 0;
  virtual absl::Status Wait() = 0;
};

// Copies new contents to a device while kernels use the old ones. Not thread-safe, but any one
// thread may call Start between two Takes.
class Feed {
 public:
  virtual ~Feed() = default;
  // Waits until the last Start has read the host's memory.
  virtual absl::Status AwaitLeft() = 0;
  // Starts a copy from `host`, beside the kernels. REQUIRES: AllocateHost of a backend made `host`.
  virtual absl::Status Start(const void* host) = 0;
  // Kernels launched later see the contents of the last Start in `device`.
  virtual absl::Status Take(void* device) = 0;
};

// A point in the order of launches that other work on the device can wait for.
class Mark {
 public:
  virtual ~Mark() = default;
  // Whether the device has passed the mark since the mark was last set. False may be late.
  virtual bool Passed() const = 0;
  // The event of the device's library. CUDA: a cudaEvent_t.
  virtual void* event() const = 0;
};

// A gradient that the parts of a group add up.
struct GroupGradient {
  float* data = nullptr;
  size_t count = 0;
  bool mean = false;  // the parts count alike; else each counts by its share
};

// One backend's part in a group of backends whose devices add up gradients. Only the backend's
// thread may call it, except for Abort.
class GroupPart {
 public:
  virtual ~GroupPart() = default;
  // Sets the weight of this part's gradients in the sums. Called before each run of the kernels.
  // ABORTED: the group is useless.
  virtual absl::Status Begin(float share) = 0;
  // Launches the sums of some gradients over the parts, behind all earlier launches. Kernels
  // launched later need not wait for the sums. StartDownload and SetMark come after the sums, and
  // need not wait for these kernels. The sums are in the first part's gradients. All parts call it,
  // in the same order. It may be recorded. REQUIRES: until End no later kernel reads or writes the
  // gradients.
  virtual absl::Status Reduce(std::span<const GroupGradient> bucket) = 0;
  // Kernels launched later run after the sums. Called after each run of the kernels.
  virtual absl::Status End() = 0;
  // Ends the waits for parts that failed. Afterwards the group is useless. Thread-safe.
  virtual void Abort() = 0;
};

// Recorded launches that one call launches again.
class Recording {
 public:
  virtual ~Recording() = default;
  // Runs after earlier launches and before later ones.
  virtual absl::Status Replay() = 0;
};

struct BackendOptions {
  int threads = 1;
  DropoutSource dropout;
  int device = 0;
  Precision precision = Precision::kFp32;
  // No kernel will run. The backend guesses choices that it would measure, and takes no device
  // memory for them.
  bool plan_only = false;
  // A file that keeps measured choices for later processes; empty: none.
  std::string choices = {};
  // False: each node has a kernel of its own. For tests.
  bool fuse = true;
};

// Not thread-safe. REQUIRES: it outlives its kernels and memory.
class Backend {
 public:
  virtual ~Backend() = default;

  // Bytes that are free for Allocate; 0: unknown.
  virtual size_t AvailableMemory() const = 0;
  // Zeroed memory.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes) = 0;
  // True: device memory is the host's, and a kernel is done when Run returns. False: kernels run in
  // the order of their launches, and the host does not wait for them.
  virtual bool computes_on_host() const = 0;
  // Zeroed host memory that the device can copy from and to, as pinned memory.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(size_t bytes) = 0;
  // Copy between host and device, after all earlier launches. `host` of Upload may be written again
  // once the kernels launched next are done.
  virtual absl::Status Upload(const void* host, void* device, size_t bytes) = 0;
  virtual absl::Status Download(const void* device, void* host, size_t bytes) = 0;
  // A Download that returns at once. In a group it comes after the sums launched so far, and not
  // after kernels.
  virtual absl::StatusOr<std::unique_ptr<Copy>> StartDownload(const void* device, void* host,
                                                              size_t bytes) = 0;
  // Launches an optimizer's update of parameters in the device's memory, by their gradients within
  // the bounds. An error if computes_on_host().
  virtual absl::Status Update(std::span<const ParameterUpdate> updates,
                              const GradientBounds& bounds) = 0;
  // Launches Newton-Schulz iterations (common/newton_schulz.h) on a row-major matrix x in the
  // device's memory. `scratch`: also there, ScratchFloats. An error if computes_on_host().
  virtual absl::Status MakeOrthogonal(size_t rows, size_t columns, float* x, float* scratch) = 0;
  // Sets a mark behind all earlier launches, in a group behind the sums. In a recording each replay
  // sets the mark again. An error if computes_on_host().
  virtual absl::StatusOr<std::unique_ptr<Mark>> SetMark() = 0;

  // Makes a feed of `bytes` bytes. An error if computes_on_host().
  virtual absl::StatusOr<std::unique_ptr<Feed>> MakeFeed(size_t bytes) = 0;

  // Makes a kernel for every node, in order; null: the node needs none (an alias, or fused into its
  // neighbor). Asks `plan` for every buffer. External tensors are plain row-major memory.
  virtual absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> MakeKernels(const Graph& graph,
                                                                           MemoryPlan* plan) = 0;
  // What people should know of the last MakeKernels, in a line. Empty: nothing.
  virtual std::string note() const { return {}; }
  // Called before each run of the kernels, from the thread that runs them.
  virtual void EnterThread() = 0;
  // Passes the step's values to kernels, also recorded ones. Called before each run.
  virtual absl::Status BeginRun(const Step& step) = 0;
  // Records the launches of `work` instead of launching them. Later only values of BeginRun may
  // change. Each Replay starts the downloads that `work` starts; their Copy objects then wait for
  // the new downloads. An error says why this cannot be recorded.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& work) = 0;
  // Makes a part for each of `members`. REQUIRES: members are backends of this kind, the first is
  // this one, and the parts outlive the members' runs of kernels.
  virtual absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
      std::span<Backend* const> members) = 0;
  // kFp16: whether a parameter's gradient has not been finite since the last BeginRun.
  virtual absl::StatusOr<bool> Overflowed() = 0;
};

}  // namespace psgd
