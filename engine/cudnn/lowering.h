// Turns nodes into launches on a device. Activations of four axes lie channels-last, all others
// row-major, all in the type that the device computes in; what comes from or goes to the outside is
// row-major fp32. This keeps in which formats every tensor exists, and converts where another one
// is needed: once for all later readers, and parameters only when they were written.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/cudnn/device.h"
#include "engine/cudnn/format.h"
#include "engine/graph/graph.h"
#include "engine/graph/memory_plan.h"
#include "engine/runtime/backend.h"

namespace psgd::cudnn {

// A tensor in one format.
struct View {
  Format format;
  BufferId buffer = kNoBuffer;
};

// Work that is put on the device's stream.
using Launch = std::function<absl::Status(const Buffers& buffers, const Step& step)>;

// Not thread-safe. The graph, plan and device outlive it and its kernels.
class Lowering {
 public:
  Lowering(const Graph& graph, MemoryPlan* plan, Device* device, Type type);

  Device* device() const { return device_; }
  cudaStream_t stream() const { return device_->stream(); }
  StepValues* step() const { return device_->step(); }
  const Shape& shape(TensorId tensor) const { return graph_.shape(tensor); }
  int64_t elements(TensorId tensor) const { return ElementCount(shape(tensor)); }
  Type type() const { return type_; }
  bool external(TensorId tensor) const { return graph_.tensors[tensor].external; }
  // Of an activation.
  Format Usual(TensorId tensor) const;
  // Row-major, as everything but images lies.
  Format PlainFormat() const { return {Layout::kPlain, type_}; }

  // REQUIRED before lowering a node, and afterwards: the node's kernel, null if it launches
  // nothing.
  void BeginNode(int index) {
    node_ = index;
    plan_->BeginNode(index);
  }
  std::unique_ptr<Kernel> EndNode();

  // The format that the tensor was written in.
  View Native(TensorId tensor);
  View Get(TensorId tensor, Format format);
  View GetUsual(TensorId tensor) { return Get(tensor, Usual(tensor)); }
  // In the layout that it was written in, for work that fits any.
  View GetAsWritten(TensorId tensor) { return Get(tensor, {Native(tensor).format.layout, type_}); }
  // Where the present node writes the tensor. External ones are brought outside after the node.
  View Put(TensorId tensor, Format format);
  View PutUsual(TensorId tensor) { return Put(tensor, Usual(tensor)); }
  // Content and size are the backend's.
  BufferId PutOpaque(TensorId tensor, size_t bytes);
  BufferId Opaque(TensorId tensor);
  // Plain fp32 memory that is written in the first run alone and keeps its content.
  View PutOnce(TensorId tensor);
  // The tensor is in the memory of `view`, unchanged. REQUIRES: it is not external.
  void PutShared(TensorId tensor, const View& view);
  // Memory that only the present node uses.
  BufferId Temporary(size_t bytes) { return plan_->Add(bytes); }

  void Call(Launch launch) { during_.push_back(std::move(launch)); }
  // As Call, in the first run alone.
  void CallOnce(Launch launch) { once_.push_back(std::move(launch)); }
  // As Call, for work whose only error is a cudaError_t.
  template <typename Kernel>
  void CallKernel(Kernel kernel) {
    Call([kernel = std::move(kernel)](const Buffers& buffers, const Step& step) {
      return CheckCall(kernel(buffers, step), "kernel launch");
    });
  }

 private:
  BufferId NewBuffer(TensorId tensor, size_t bytes);
  // Divides what is outside by the loss scale, where it comes with that.
  void Unscale(TensorId tensor, BufferId buffer);
  Launch Conversion(TensorId tensor, const View& from, const View& to) const;

  const Graph& graph_;
  MemoryPlan* const plan_;
  Device* const device_;
  const Type type_;
  std::vector<std::vector<View>> views_;  // by tensor; the first is the native one
  std::vector<bool> kept_;                // by tensor: parameters and constants
  // By tensor: gradients of parameters that come with the loss scale, and what nodes read.
  std::vector<bool> scaled_, read_;

  int node_ = 0;  // the present one
  // Of the present node: what runs once, when parameters are new, first, in the middle and last.
  std::vector<Launch> once_, renewals_, before_, during_, after_;
};

}  // namespace psgd::cudnn
