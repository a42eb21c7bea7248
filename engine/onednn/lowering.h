// Turns nodes into oneDNN calls. oneDNN chooses the layouts. Lowering remembers the layouts and
// memory of each tensor, and adds a reorder only if a call needs another layout. Later users share
// the reordered tensor. Reorders of parameters run only after parameters were written. The element
// type is part of a layout: if the backend computes in bf16, primitives read and write bf16, host
// calls fp32, and reorders convert between the two.
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
  bool on_new_parameters = false;  // the call runs only if parameters changed since its last run
};
// Work on plain tensors without a primitive.
using HostCall = std::function<void(const Buffers& buffers, const Step& step)>;

// Not thread-safe. REQUIRES: the graph, plan and engine outlive it.
class Lowering {
 public:
  // `real`: the type of activations in primitives, fp32 or bf16.
  Lowering(const Graph& graph, MemoryPlan* plan, const dnnl::engine& engine, Type real);

  const Graph& graph() const { return graph_; }
  const dnnl::engine& engine() const { return engine_; }
  Type real() const { return real_; }

  // REQUIRES: called before and after lowering a node. EndNode returns the node's kernel; null: the
  // node made no calls.
  void BeginNode(int index);
  std::unique_ptr<Kernel> EndNode(const dnnl::stream& stream);

  Dims dims(TensorId tensor) const;
  Desc Plain(TensorId tensor, Type type = Type::f32) const;
  // The type in which a primitive writes the tensor: fp32 if a loss or a softmax reads it, because
  // these compute in fp32; else `real`.
  Type TypeOfOutput(TensorId tensor) const;
  // The tensor in the layout in which it was written; plain before that. Opaque elements then have
  // eight bytes, as in the reference backend.
  View Native(TensorId tensor);
  // The tensor in that layout with elements of this type.
  View NativeAs(TensorId tensor, Type type);
  View NativeReal(TensorId tensor) { return NativeAs(tensor, real_); }
  // The tensor in the wanted layout. `as`: other plain dims of its elements, as for groups.
  View Get(TensorId tensor, const Desc& wanted, const Desc* as = nullptr);
  View GetPlain(TensorId tensor, Type type = Type::f32) { return Get(tensor, Plain(tensor, type)); }
  // The memory where the present node writes the tensor in that layout. External tensors are then
  // reordered to their plain layout.
  View Put(TensorId tensor, const Desc& desc, const Desc* as = nullptr);
  View PutPlain(TensorId tensor, Type type = Type::f32) { return Put(tensor, Plain(tensor, type)); }
  // The memory where the present node writes the tensor in the layout of `view`, in which it read
  // `input`. It overwrites `input` if no other node reads `input`.
  View PutOver(TensorId tensor, TensorId input, const View& view);
  // The tensor has the unchanged memory of `view`. REQUIRES: the tensor is not external.
  View PutShared(TensorId tensor, const View& view);

  // Memory that only the present node uses.
  View Temporary(const Desc& desc) { return {desc, plan_->Add(desc.get_size())}; }
  // The scratch memory of the primitive.
  View Scratch(const dnnl::primitive_desc_base& pd) { return Temporary(pd.scratchpad_desc()); }

  // Adds a call of the primitive, with its scratch memory.
  template <typename Primitive>
  void Run(const typename Primitive::primitive_desc& pd, std::vector<Argument> arguments) {
    arguments.push_back({DNNL_ARG_SCRATCHPAD, Scratch(pd)});
    during_.push_back({Primitive(pd), std::move(arguments)});
  }
  void Call(HostCall call);

  // The only node that reads the tensor, or -1. -1 for external tensors, which the caller reads
  // too.
  int SoleUser(TensorId tensor) const;
  // Marks `node` as computed by the present node.
  void Fuse(int node) { fused_[node] = true; }
  bool fused(int node) const { return fused_[node]; }
  int node() const { return plan_->node(); }

  // Layouts that forward nodes pass to their backward nodes.
  std::map<TensorId, Desc> hints;

 private:
  // Makes the memory of `view` the tensor's.
  View PutInPlace(TensorId tensor, const View& view);
  // Only the present node reads `input`, and no other tensor shares the memory of `view`.
  bool Overwritable(TensorId input, const View& view) const;
  BufferId NewBuffer(TensorId tensor, size_t bytes);
  bool IsParameter(TensorId tensor) const { return parameter_[tensor]; }
  void Reorder(const View& from, const View& to, bool on_new_parameters,
               std::vector<PrimitiveCall>* calls);

  const Graph& graph_;
  MemoryPlan* const plan_;
  const dnnl::engine engine_;
  const Type real_;
  std::vector<std::vector<View>> views_;  // by tensor; the first is native
  std::vector<std::vector<int>> users_;   // nodes, by tensor
  std::vector<bool> parameter_;           // by tensor
  std::vector<bool> fused_;               // by node
  std::set<BufferId> shared_;

  // The calls of the present node.
  std::vector<PrimitiveCall> before_, during_, after_;
  std::vector<HostCall> host_;
};

// Attributes of a primitive whose scratchpad comes from the memory plan.
dnnl::primitive_attr PlannedScratchpad();

// The image layout of `desc`, if most primitives are fast in it and it does not depend on height
// and width; else nchw.
Tag LayoutOf(const Desc& desc);
Desc InLayout(const Dims& dims, Tag layout, Type type);
Type TypeOf(const Desc& desc);
// The same layout of elements of another type.
Desc WithType(Desc desc, Type type);

// Two numbers of a window as oneDNN takes them.
inline Dims Pair(const Extent& extent) { return {extent.height, extent.width}; }

}  // namespace psgd::onednn
