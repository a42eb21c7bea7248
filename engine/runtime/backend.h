// What computes a graph: one interface, several twins (reference/, onednn/), each of which makes a
// kernel for every node. All but `reference` are plugins (engine/runtime/plugin.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/memory_plan.h"
#include "engine/graph/precision.h"

namespace psgd {

// What changes from one run of the kernels to the next.
struct Step {
  uint64_t number = 0;             // keys the dropout masks
  uint64_t parameter_version = 0;  // grows whenever parameters were written
  float loss_scale = 1;            // the gradient of the loss is multiplied by it; of kFp16 alone
  // Is kept and run again: what only new parameters need runs in any case.
  bool recorded = false;
};

// The work of one node. Not thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Tells where the buffers are: once, before the first Run. `buffers` outlives the kernel.
  virtual void Bind(const Buffers& buffers) = 0;
  virtual absl::Status Run(const Step& step) = 0;
};

// Memory on the device of a backend, aligned for it and freed with this object.
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

// A way for a device's memory to get new contents while kernels use the old ones. A thread that is
// not its backend's may call Start, between a Take and the next.
class Feed {
 public:
  virtual ~Feed() = default;
  // Waits until what was started last has left the host's memory.
  virtual absl::Status AwaitLeft() = 0;
  // Starts the copy of what lies there, in memory of some backend's AllocateHost, beside the
  // kernels.
  virtual absl::Status Start(const void* host) = 0;
  // Kernels that are launched from now on see in `device` what was started last.
  virtual absl::Status Take(void* device) = 0;
};

// A point in the order of launches, for what waits for it on the device.
class Mark {
 public:
  virtual ~Mark() = default;
  // Whether the device came by since it was set last. False may be late.
  virtual bool Passed() const = 0;
  // That of the device's library: of CUDA a cudaEvent_t.
  virtual void* event() const = 0;
};

// One backend's part in a group whose gradients meet on their devices. Its backend's thread calls
// it, but for Abort.
class GroupPart {
 public:
  virtual ~GroupPart() = default;
  // Called before each run of the kernels: what this part's gradients count for in the sums.
  virtual absl::Status Begin(float share) = 0;
  // Launches: of the group's first part, gradient[0, count) becomes the sum over the parts, each
  // times its share, or their mean. Every part calls it, in the same order; it may be recorded.
  virtual absl::Status Reduce(float* gradient, size_t count, bool mean) = 0;
  // From any thread: what waits for parts that will not come ends. The group is of no use
  // afterwards.
  virtual void Abort() = 0;
};

// Launches that were recorded, to be launched again by one call.
class Recording {
 public:
  virtual ~Recording() = default;
  // Between what was launched before and what is launched after.
  virtual absl::Status Replay() = 0;
};

struct BackendOptions {
  int threads = 1;
  DropoutSource dropout;
  int device = 0;
  Precision precision = Precision::kFp32;
  // Nothing will run: what is chosen by measuring is taken as it is thought best, and what it takes
  // of the device's memory is not asked for.
  bool plan_only = false;
  // A file of what was chosen by measuring, for later processes; empty: none.
  std::string choices = {};
};

// Not thread-safe; outlives its kernels and memory.
class Backend {
 public:
  virtual ~Backend() = default;

  // Bytes that Allocate may find now; 0 where nothing tells.
  virtual size_t AvailableMemory() const = 0;
  // Zeroed memory.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes) = 0;
  // Whether its memory is the host's, and a kernel is done when Run returns. If not, kernels run in
  // the order of their launches, and the host goes on meanwhile.
  virtual bool computes_on_host() const = 0;
  // Zeroed memory of the host that is good to copy from and to.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(size_t bytes) = 0;
  // Between host memory and the device's, after all that was launched before. What is uploaded may
  // be written again once the kernels that were launched next are done.
  virtual absl::Status Upload(const void* host, void* device, size_t bytes) = 0;
  virtual absl::Status Download(const void* device, void* host, size_t bytes) = 0;
  // As Download, but returns at once.
  virtual absl::StatusOr<std::unique_ptr<Copy>> StartDownload(const void* device, void* host,
                                                              size_t bytes) = 0;
  // Lies behind all that was launched before; set in a recording, behind that of each replay. An
  // error where kernels are done when Run returns.
  virtual absl::StatusOr<std::unique_ptr<Mark>> SetMark() = 0;

  // Of so many bytes. An error where memory is the host's.
  virtual absl::StatusOr<std::unique_ptr<Feed>> MakeFeed(size_t bytes) = 0;

  // A kernel for every node, in order; null where a node needs none (an alias, or fused into its
  // neighbour). Asks `plan` for every buffer; external tensors are plain row-major memory.
  virtual absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> MakeKernels(const Graph& graph,
                                                                           MemoryPlan* plan) = 0;
  // Called before each run of the kernels, from the thread that runs them.
  virtual void EnterThread() = 0;
  // Tells what changes from step to step to kernels, also recorded ones. Called before each run.
  virtual absl::Status BeginRun(const Step& step) = 0;
  // Runs `work`, which launches nothing but records what it would launch: of the step only what
  // BeginRun was told may change later. A download that `work` starts is started by each Replay,
  // after which its Copy waits for the new one. An error says why this cannot be recorded.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& work) = 0;
  // A part for each of `members`, backends of this kind; the first is this one. Parts outlive what
  // the members recorded.
  virtual absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
      std::span<Backend* const> members) = 0;
  // Of kFp16: whether gradients of parameters since the last BeginRun were not finite.
  virtual absl::StatusOr<bool> Overflowed() = 0;
};

}  // namespace psgd
