// Turns nodes into oneDNN calls. oneDNN chooses the layouts; this keeps, for every tensor, in which
// layouts it exists and where, and adds a reorder only when a call needs another one. A reorder is
// shared by all later users; those of parameters run only when the parameters were written. The
// type of the elements is part of a layout: where the backend computes in bf16, primitives read and
// write that, host calls fp32, and a reorder converts wherever the two meet.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "engine/graph/graph.h"
#include "engine/graph/memory_plan.h"
#include "engine/runtime/backend.h"

namespace psgd::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

// A tensor in one layout.
struct View {
  Desc desc;
  BufferId buffer = kNoBuffer;
};

struct Argument {
  int role = 0;  // DNNL_ARG_SRC ...
  View view;
};

struct PrimitiveCall {
  dnnl::primitive primitive;
  std::vector<Argument> arguments;
  bool on_new_parameters = false;  // only when the parameters changed since the last time
};
// Work on plain tensors that no primitive does.
using HostCall = std::function<void(const Buffers& buffers, const Step& step)>;

// Not thread-safe. The graph, plan and engine outlive it.
class Lowering {
 public:
  // `real`: what primitives compute activations in, fp32 or bf16.
  Lowering(const Graph& graph, MemoryPlan* plan, const dnnl::engine& engine, Type real);

  const Graph& graph() const { return graph_; }
  const dnnl::engine& engine() const { return engine_; }
  Type real() const { return real_; }

  // REQUIRED before lowering a node, and afterwards: the node's kernel, null if it made no calls.
  void BeginNode(int index);
  std::unique_ptr<Kernel> EndNode(const dnnl::stream& stream);

  Dims dims(TensorId tensor) const;
  Desc Plain(TensorId tensor, Type type = Type::f32) const;
  // What a primitive is to write the tensor in: `real`, but fp32 where a loss or a softmax reads
  // it, which compute in fp32.
  Type TypeOfOutput(TensorId tensor) const;
  // The layout the tensor was written in.
  View Native(TensorId tensor);
  // That layout, its elements of this type.
  View NativeAs(TensorId tensor, Type type);
  View NativeReal(TensorId tensor) { return NativeAs(tensor, real_); }
  // The tensor in the wanted layout. `as`: plain dims of the same elements, as for groups.
  View Get(TensorId tensor, const Desc& wanted, const Desc* as = nullptr);
  View GetPlain(TensorId tensor, Type type = Type::f32) { return Get(tensor, Plain(tensor, type)); }
  // Where the present node writes the tensor in that layout. External tensors also get their plain
  // layout, once the node's calls are done.
  View Put(TensorId tensor, const Desc& desc, const Desc* as = nullptr);
  View PutPlain(TensorId tensor, Type type = Type::f32) { return Put(tensor, Plain(tensor, type)); }
  // Where the present node writes the tensor in the layout of `view`, in which it read `input`:
  // over its values when nobody else reads them.
  View PutOver(TensorId tensor, TensorId input, const View& view);
  // The tensor is in the memory of `view`, unchanged. REQUIRES: the tensor is not external.
  View PutShared(TensorId tensor, const View& view);

  // Memory that only the present node uses.
  View Temporary(const Desc& desc) { return {desc, plan_->Add(desc.get_size())}; }
  // What the primitive asks for to work in.
  View Scratch(const dnnl::primitive_desc_base& pd) { return Temporary(pd.scratchpad_desc()); }

  void Call(const dnnl::primitive& primitive, std::vector<Argument> arguments);
  void Call(HostCall call);

  // The only node that reads the tensor, or -1. External tensors are read by the caller too.
  int SoleUser(TensorId tensor) const;
  // The node is computed by the present one.
  void Fuse(int node) { fused_[node] = true; }
  bool fused(int node) const { return fused_[node]; }
  int node() const { return plan_->node(); }

  // Layouts that a forward node leaves for its backward node.
  std::map<TensorId, Desc> hints;

 private:
  // The tensor is in the memory of `view`.
  View PutInPlace(TensorId tensor, const View& view);
  // The present node alone reads `input`, and nothing shares the memory of its `view`.
  bool Overwritable(TensorId input, const View& view) const;
  BufferId NewBuffer(TensorId tensor, size_t bytes);
  bool IsParameter(TensorId tensor) const { return parameter_[tensor]; }
  void Reorder(const View& from, const View& to, bool on_new_parameters,
               std::vector<PrimitiveCall>* calls);

  const Graph& graph_;
  MemoryPlan* const plan_;
  const dnnl::engine engine_;
  const Type real_;
  std::vector<std::vector<View>> views_;  // by tensor; the first is the native one
  std::vector<std::vector<int>> users_;   // nodes, by tensor
  std::vector<bool> parameter_;           // by tensor
  std::vector<bool> fused_;               // by node
  std::set<BufferId> shared_;

  // Of the present node.
  std::vector<PrimitiveCall> before_, during_, after_;
  std::vector<HostCall> host_;
};

// Scratchpads come from the memory plan.
dnnl::primitive_attr PlannedScratchpad();

// The layouts of images that most primitives are fast in and that do not depend on the height and
// width; nchw where `desc` is in none of them.
Tag LayoutOf(const Desc& desc);
Desc InLayout(const Dims& dims, Tag layout, Type type);
Type TypeOf(const Desc& desc);
// The same layout of elements of another type.
Desc WithType(Desc desc, Type type);

// Two numbers of a window as oneDNN wants them.
inline Dims Pair(const Extent& extent) { return {extent.height, extent.width}; }

}  // namespace psgd::onednn
