#include "engine/onednn/lowering.h"

#include <algorithm>
#include <unordered_map>

namespace psgd::onednn {
namespace {

// The calls of one node: reorders of inputs, primitives, host work, reorders of outputs.
class CallsKernel : public Kernel {
 public:
  CallsKernel(std::vector<PrimitiveCall> calls, std::vector<HostCall> host,
              const dnnl::engine& engine, const dnnl::stream& stream)
      : calls_(std::move(calls)), host_(std::move(host)), engine_(engine), stream_(stream) {}

  void Bind(const Buffers& buffers) override {
    buffers_ = &buffers;
    for (const PrimitiveCall& call : calls_) {
      std::unordered_map<int, dnnl::memory>& memories = memories_.emplace_back();
      for (const Argument& argument : call.arguments) {
        memories.emplace(argument.role,
                         dnnl::memory(argument.view.desc, engine_, buffers[argument.view.buffer]));
      }
    }
  }

  absl::Status Run(const Step& step) override {
    try {
      for (size_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i].on_new_parameters && step.parameter_version == parameter_version_) continue;
        calls_[i].primitive.execute(stream_, memories_[i]);
      }
    } catch (const dnnl::error& error) {
      return absl::InternalError(std::string("oneDNN: ") + error.what());
    }
    for (const HostCall& call : host_) call(*buffers_, step);
    parameter_version_ = step.parameter_version;
    return absl::OkStatus();
  }

 private:
  const std::vector<PrimitiveCall> calls_;
  const std::vector<HostCall> host_;
  const dnnl::engine engine_;
  const dnnl::stream stream_;
  const Buffers* buffers_ = nullptr;
  std::vector<std::unordered_map<int, dnnl::memory>> memories_;  // by call
  uint64_t parameter_version_ = ~uint64_t{0};                    // of the last run
};

}  // namespace

dnnl::primitive_attr PlannedScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Tag LayoutOf(const Desc& desc) {
  for (Tag tag : {Tag::nChw16c, Tag::nChw8c, Tag::nhwc}) {
    if (desc == InLayout(desc.dims(), tag, TypeOf(desc))) return tag;
  }
  return Tag::nchw;
}

Desc InLayout(const Dims& dims, Tag layout, Type type) { return Desc(dims, type, layout); }

Type TypeOf(const Desc& desc) { return desc.data_type(); }

Desc WithType(Desc desc, Type type) {
  desc.data.data_type = dnnl::memory::convert_to_c(type);
  return desc;
}

Lowering::Lowering(const Graph& graph, MemoryPlan* plan, const dnnl::engine& engine, Type real)
    : graph_(graph),
      plan_(plan),
      engine_(engine),
      real_(real),
      views_(graph.tensors.size()),
      users_(graph.tensors.size()),
      parameter_(graph.tensors.size()),
      fused_(graph.nodes.size()) {
  for (const Parameter& parameter : graph.parameters) parameter_[parameter.value] = true;
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    for (TensorId input : graph.nodes[node].inputs) users_[input].push_back(static_cast<int>(node));
  }
}

void Lowering::BeginNode(int index) { plan_->BeginNode(index); }

std::unique_ptr<Kernel> Lowering::EndNode(const dnnl::stream& stream) {
  std::vector<PrimitiveCall> calls = std::exchange(before_, {});
  for (auto* more : {&during_, &after_}) {
    calls.insert(calls.end(), more->begin(), more->end());
    more->clear();
  }
  if (calls.empty() && host_.empty()) return nullptr;
  return std::make_unique<CallsKernel>(std::move(calls), std::exchange(host_, {}), engine_, stream);
}

Dims Lowering::dims(TensorId tensor) const {
  const Shape& shape = graph_.shape(tensor);
  return Dims(shape.begin(), shape.end());
}

Desc Lowering::Plain(TensorId tensor, Type type) const {
  const Shape& shape = graph_.shape(tensor);
  Dims strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return Desc(dims(tensor), type, strides);
}

Type Lowering::TypeOfOutput(TensorId tensor) const {
  for (int user : users_[tensor]) {
    const Op& op = graph_.nodes[user].op;
    const bool fp32 = std::holds_alternative<SoftmaxCrossEntropy>(op) ||
                      std::holds_alternative<ElementLoss>(op) ||
                      std::holds_alternative<Softmax>(op) ||
                      (std::holds_alternative<Reshape>(op) &&
                       TypeOfOutput(graph_.nodes[user].outputs[0]) == Type::f32);
    if (fp32) return Type::f32;
  }
  return real_;
}

BufferId Lowering::NewBuffer(TensorId tensor, size_t bytes) {
  return graph_.tensors[tensor].external ? plan_->AddExternal(tensor, bytes)
                                         : plan_->Add(bytes, tensor);
}

View Lowering::Native(TensorId tensor) {
  std::vector<View>& views = views_[tensor];
  if (views.empty()) {  // only host calls read and write types other than fp32
    const Desc desc = Plain(tensor);
    const Element element = graph_.tensors[tensor].element;
    const bool wide = element == Element::kDouble || element == Element::kOpaque;
    views.push_back({desc, NewBuffer(tensor, desc.get_size() * (wide ? 2 : 1))});
  }
  plan_->Use(views.front().buffer);
  return views.front();
}

View Lowering::NativeAs(TensorId tensor, Type type) {
  const View native = Native(tensor);
  return TypeOf(native.desc) == type ? native : Get(tensor, WithType(native.desc, type));
}

View Lowering::Get(TensorId tensor, const Desc& wanted, const Desc* as) {
  View native = Native(tensor);
  if (as != nullptr) native.desc = *as;
  if (native.desc == wanted) return native;
  for (const View& view : views_[tensor]) {
    if (view.desc != wanted) continue;
    plan_->Use(view.buffer);
    return view;
  }
  const bool kept = IsParameter(tensor);
  const size_t bytes = wanted.get_size();
  const View made = {wanted,
                     kept ? plan_->AddPersistent(bytes, tensor) : plan_->Add(bytes, tensor)};
  Reorder(native, made, kept, &before_);
  views_[tensor].push_back(made);
  return made;
}

View Lowering::Put(TensorId tensor, const Desc& desc, const Desc* as) {
  const Desc plain = as == nullptr ? Plain(tensor) : *as;
  std::vector<View>& views = views_[tensor];
  const bool stays = as == nullptr && !graph_.tensors[tensor].external;
  if (stays || desc == plain) {
    // Other nodes do not know the dims of `as`.
    const Desc known = as == nullptr ? desc : Plain(tensor);
    views.push_back({known, NewBuffer(tensor, desc.get_size())});
    return {desc, views.front().buffer};
  }
  const View made = {desc, plan_->Add(desc.get_size(), tensor)};
  const View outside = {plain, NewBuffer(tensor, plain.get_size())};
  Reorder(made, outside, false, &after_);
  views.push_back({Plain(tensor), outside.buffer});
  return made;
}

View Lowering::PutOver(TensorId tensor, TensorId input, const View& view) {
  const bool in_place = Overwritable(input, view) && !graph_.tensors[tensor].external;
  return in_place ? PutInPlace(tensor, view) : Put(tensor, view.desc);
}

View Lowering::PutInPlace(TensorId tensor, const View& view) {
  plan_->Use(view.buffer);
  views_[tensor].push_back(view);
  return view;
}

View Lowering::PutShared(TensorId tensor, const View& view) {
  shared_.insert(view.buffer);
  return PutInPlace(tensor, view);
}

bool Lowering::Overwritable(TensorId input, const View& view) const {
  return SoleUser(input) == node() && !shared_.contains(view.buffer);
}

void Lowering::Reorder(const View& from, const View& to, bool on_new_parameters,
                       std::vector<PrimitiveCall>* calls) {
  const dnnl::reorder::primitive_desc pd(engine_, from.desc, engine_, to.desc, PlannedScratchpad());
  calls->push_back({dnnl::reorder(pd),
                    {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, Scratch(pd)}},
                    on_new_parameters});
}

void Lowering::Call(HostCall call) { host_.push_back(std::move(call)); }

int Lowering::SoleUser(TensorId tensor) const {
  if (graph_.tensors[tensor].external || users_[tensor].size() != 1) return -1;
  return users_[tensor].front();
}

}  // namespace psgd::onednn
