// Turns nodes into launches on a device. Activations with four axes are channels-last, others
// row-major, all in the device's type. External tensors are row-major fp32. Lowering remembers the
// formats of each tensor and adds a conversion if another format is needed. Later readers share
// the converted tensor. Parameters are converted only after they were written.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
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

// The memory of a tensor in fp32.
inline const float* In(const Buffers& b, const View& view) {
  return static_cast<const float*>(b[view.buffer]);
}
inline float* Out(const Buffers& b, const View& view) {
  return static_cast<float*>(b[view.buffer]);
}

// What a kernel gets for an argument. Where it takes a pointer, a view or a buffer stands for its
// memory, and kNoBuffer for null.
template <typename Parameter, typename Argument>
Parameter ArgumentIn(const Buffers& b, const Argument& argument) {
  if constexpr (std::is_same_v<Argument, View>) {
    return ArgumentIn<Parameter>(b, argument.buffer);
  } else if constexpr (std::is_pointer_v<Parameter> && std::is_same_v<Argument, BufferId>) {
    return argument == kNoBuffer ? nullptr : static_cast<Parameter>(b[argument]);
  } else {
    return argument;
  }
}

// A function that puts work on the device's stream.
using Launch = std::function<absl::Status(const Buffers& buffers, const Step& step)>;

// Not thread-safe. REQUIRES: the graph, plan and device outlive it and its kernels.
class Lowering {
 public:
  Lowering(const Graph& graph, MemoryPlan* plan, Device* device, Type type);

  Device* device() const { return device_; }
  cudaStream_t stream() const { return device_->stream(); }
  StepValues* step() const { return device_->step(); }
  const Node& node(int index) const { return graph_.nodes[index]; }
  const Shape& shape(TensorId tensor) const { return graph_.shape(tensor); }
  int64_t elements(TensorId tensor) const { return ElementCount(shape(tensor)); }
  Type type() const { return type_; }
  // The number, or the type's largest where a large finite one, as of a mask, would be infinite.
  float KeptFinite(float number) const;
  bool external(TensorId tensor) const { return graph_.tensors[tensor].external; }
  // Whether a node reads it.
  bool read(TensorId tensor) const { return read_[tensor]; }
  // See staircase.h.
  bool staircase(TensorId tensor) const { return staircases_[tensor]; }
  // The format of an activation.
  Format Usual(TensorId tensor) const;
  // Row-major, the layout of all tensors but images.
  Format PlainFormat() const { return {Layout::kPlain, type_}; }

  // REQUIRES: called before and after lowering a node. EndNode returns the node's kernel; null: the
  // node launches nothing.
  void BeginNode(int index) {
    node_ = index;
    plan_->BeginNode(index);
  }
  std::unique_ptr<Kernel> EndNode();
  int index() const { return node_; }
  // The first error is the reason why the network cannot be lowered.
  void Refuse(absl::Status why) { status_.Update(std::move(why)); }
  const absl::Status& status() const { return status_; }
  // The present node's kernel computes these nodes, or a part of one.
  void SetWork(std::vector<int> nodes) { work_ = std::move(nodes); }

  // The tensor in the format in which it was written.
  View Native(TensorId tensor);
  View Get(TensorId tensor, Format format);
  View GetUsual(TensorId tensor) { return Get(tensor, Usual(tensor)); }
  // The tensor in the layout in which it was written, for work in any layout.
  View GetAsWritten(TensorId tensor) { return Get(tensor, {Native(tensor).format.layout, type_}); }
  // As Native, for a node that also writes the tensor again.
  View NativeToChange(TensorId tensor);
  // The memory where the present node writes the tensor. External tensors are converted to their
  // external memory after the node.
  View Put(TensorId tensor, Format format);
  View PutUsual(TensorId tensor) { return Put(tensor, Usual(tensor)); }
  // For Element::kOpaque, whose content and size the backend chooses.
  BufferId PutOpaque(TensorId tensor, size_t bytes);
  BufferId Opaque(TensorId tensor);
  // Plain fp32 memory that only the first run writes and that keeps its content.
  View PutOnce(TensorId tensor);
  // Such memory without a tensor.
  BufferId AddOnce(size_t bytes) { return plan_->AddPersistent(bytes); }
  // The tensor has the unchanged memory of `view`. REQUIRES: the tensor is not external.
  void PutShared(TensorId tensor, const View& view);
  // Memory for the present node. UseAgain keeps it for a later node.
  BufferId Temporary(size_t bytes) { return plan_->Add(bytes); }
  void UseAgain(BufferId buffer) { plan_->Use(buffer); }

  void Call(Launch launch) { during_.push_back(std::move(launch)); }
  // As Call, but only in the first run.
  void CallOnce(Launch launch) { once_.push_back(std::move(launch)); }
  // As Call, for work whose only error is a cudaError_t.
  template <typename Kernel>
  void CallKernel(Kernel kernel) {
    Call([kernel = std::move(kernel)](const Buffers& buffers, const Step& step) {
      return CheckCall(kernel(buffers, step), "kernel launch");
    });
  }
  // As CallKernel, for a kernel with these arguments behind the stream, see ArgumentIn.
  template <typename... Parameters, typename... Arguments>
  void Run(cudaError_t (*kernel)(cudaStream_t, Parameters...), Arguments... arguments) {
    CallKernel([=, stream = stream()](const Buffers& b, const Step&) {
      return kernel(stream, ArgumentIn<Parameters>(b, arguments)...);
    });
  }

 private:
  size_t Bytes(TensorId tensor, const Format& format) const;
  BufferId NewBuffer(TensorId tensor, size_t bytes);
  void AddToKernel(TensorId tensor);
  // Divides an external gradient by the loss scale if its values carry the scale.
  void Unscale(TensorId tensor, BufferId buffer);
  Launch Conversion(TensorId tensor, const View& from, const View& to) const;

  const Graph& graph_;
  MemoryPlan* const plan_;
  Device* const device_;
  const Type type_;
  std::vector<std::vector<View>> views_;  // by tensor; the first is native
  std::vector<bool> kept_;                // by tensor: parameters and constants
  // By tensor: scaled_ are gradients of parameters with the loss scale, read_ are inputs of nodes.
  std::vector<bool> scaled_, read_;
  const std::vector<bool> staircases_;  // by tensor

  absl::Status status_;
  int node_ = 0;                   // the present node
  std::vector<int> work_;          // the nodes of its kernel; empty: only itself
  std::vector<TensorId> tensors_;  // of its kernel, see FusedWork
  // Launches of the present node: once, on new parameters, and in each run first, then, last.
  std::vector<Launch> once_, renewals_, before_, during_, after_;
};

}  // namespace psgd::cudnn
