#include "engine/cudnn/lowering.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/range.h"
#include "engine/cudnn/staircase.h"

namespace psgd::cudnn {
namespace {

// The launches of one node.
class LaunchKernel : public Kernel {
 public:
  LaunchKernel(std::string name, FusedWork fused, std::vector<Launch> once,
               std::vector<Launch> renewals, std::vector<Launch> launches)
      : name_(std::move(name)),
        fused_(std::move(fused)),
        once_(std::move(once)),
        renewals_(std::move(renewals)),
        launches_(std::move(launches)) {}

  const FusedWork* fused() const override { return fused_.nodes.empty() ? nullptr : &fused_; }
  void Bind(const Buffers& buffers) override { buffers_ = &buffers; }

  absl::Status Run(const Step& step) override {
    const Range range(name_.c_str());
    if (!ran_) PSGD_RETURN_IF_ERROR(RunAll(once_, step));
    if (step.recorded || step.parameter_version != parameter_version_) {
      PSGD_RETURN_IF_ERROR(RunAll(renewals_, step));
      // Recorded launches have not run and may never run.
      if (!step.recorded) parameter_version_ = step.parameter_version;
    }
    ran_ = true;
    return RunAll(launches_, step);
  }

 private:
  absl::Status RunAll(const std::vector<Launch>& launches, const Step& step) const {
    for (const Launch& launch : launches) PSGD_RETURN_IF_ERROR(launch(*buffers_, step));
    return absl::OkStatus();
  }

  const std::string name_;  // of the node
  const FusedWork fused_;   // without nodes: only its own
  const std::vector<Launch> once_, renewals_, launches_;
  bool ran_ = false;
  const Buffers* buffers_ = nullptr;
  uint64_t parameter_version_ = ~uint64_t{0};  // of the last run
};

void Append(std::vector<Launch>* from, std::vector<Launch>* to) {
  for (Launch& launch : *from) to->push_back(std::move(launch));
  from->clear();
}

}  // namespace

Lowering::Lowering(const Graph& graph, MemoryPlan* plan, Device* device, Type type)
    : graph_(graph),
      plan_(plan),
      device_(device),
      type_(type),
      views_(graph.tensors.size()),
      kept_(graph.tensors.size()),
      scaled_(graph.tensors.size()),
      read_(graph.tensors.size()),
      staircases_(FindStaircases(graph)) {
  for (const Parameter& parameter : graph.parameters) {
    kept_[parameter.value] = true;
    if (type == Type::kHalf && !parameter.statistic && parameter.gradient != kNoTensor) {
      scaled_[parameter.gradient] = true;
    }
  }
  for (const Node& node : graph.nodes) {
    for (TensorId input : node.inputs) read_[input] = true;
  }
}

float Lowering::KeptFinite(float number) const {
  const float most = type_ == Type::kHalf       ? 65504
                     : type_ == Type::kBfloat16 ? 0x1.fep127f
                                                : std::numeric_limits<float>::max();
  return std::isfinite(number) ? std::clamp(number, -most, most) : number;
}

Format Lowering::Usual(TensorId tensor) const {
  return {shape(tensor).size() == 4 ? Layout::kChannelsLast : Layout::kPlain, type_};
}

std::unique_ptr<Kernel> Lowering::EndNode() {
  std::vector<Launch> launches;
  Append(&before_, &launches);
  Append(&during_, &launches);
  Append(&after_, &launches);
  FusedWork fused = {std::exchange(work_, {}), std::exchange(tensors_, {})};
  if (launches.empty() && renewals_.empty() && once_.empty()) return nullptr;
  return std::make_unique<LaunchKernel>(graph_.nodes[node_].name, std::move(fused),
                                        std::exchange(once_, {}), std::exchange(renewals_, {}),
                                        std::move(launches));
}

size_t Lowering::Bytes(TensorId tensor, const Format& format) const {
  const int64_t padded = format.channels > 0 ? elements(tensor) / shape(tensor)[1] * format.channels
                                             : elements(tensor);
  return static_cast<size_t>(padded) * TypeBytes(format.type);
}

BufferId Lowering::NewBuffer(TensorId tensor, size_t bytes) {
  return graph_.tensors[tensor].external ? plan_->AddExternal(tensor, bytes)
                                         : plan_->Add(bytes, tensor);
}

void Lowering::AddToKernel(TensorId tensor) {
  if (std::find(tensors_.begin(), tensors_.end(), tensor) == tensors_.end()) {
    tensors_.push_back(tensor);
  }
}

View Lowering::Native(TensorId tensor) {
  AddToKernel(tensor);
  std::vector<View>& views = views_[tensor];
  if (views.empty()) {  // an external input; its widest type is double
    views.push_back({kPlainFloat, NewBuffer(tensor, elements(tensor) * sizeof(double))});
  }
  plan_->Use(views.front().buffer);
  return views.front();
}

View Lowering::NativeToChange(TensorId tensor) {
  const View view = Native(tensor);
  tensors_.push_back(tensor);
  return view;
}

View Lowering::Get(TensorId tensor, Format format) {
  const View native = Native(tensor);
  for (const View& view : views_[tensor]) {
    if (view.format != format) continue;
    plan_->Use(view.buffer);
    return view;
  }
  const bool kept = kept_[tensor];
  const size_t bytes = Bytes(tensor, format);
  const View made = {format,
                     kept ? plan_->AddPersistent(bytes, tensor) : plan_->Add(bytes, tensor)};
  (kept ? renewals_ : before_).push_back(Conversion(tensor, native, made));
  views_[tensor].push_back(made);
  return made;
}

View Lowering::Put(TensorId tensor, Format format) {
  AddToKernel(tensor);
  std::vector<View>& views = views_[tensor];
  const size_t bytes = Bytes(tensor, format);
  // Nodes that read a gradient need it with the loss scale, so the division is not in place.
  const bool apart = scaled_[tensor] && read_[tensor];
  if (!external(tensor) || (format == kPlainFloat && !apart)) {
    views.push_back({format, NewBuffer(tensor, bytes)});
    if (external(tensor)) Unscale(tensor, views.front().buffer);
    return views.front();
  }
  const View made = {format, plan_->Add(bytes, tensor)};
  const View outside = {kPlainFloat, NewBuffer(tensor, elements(tensor) * sizeof(float))};
  after_.push_back(Conversion(tensor, made, outside));
  Unscale(tensor, outside.buffer);
  views.push_back(apart ? made : outside);
  return made;
}

void Lowering::Unscale(TensorId tensor, BufferId buffer) {
  if (!scaled_[tensor]) return;
  after_.push_back([=, stream = stream(), count = elements(tensor), values = step()](
                       const Buffers& buffers, const Step&) {
    return CheckCall(cudnn::Unscale(stream, count, static_cast<float*>(buffers[buffer]), values),
                     "Unscale");
  });
}

BufferId Lowering::PutOpaque(TensorId tensor, size_t bytes) {
  views_[tensor].push_back({kPlainFloat, NewBuffer(tensor, bytes)});
  return views_[tensor].front().buffer;
}

BufferId Lowering::Opaque(TensorId tensor) { return Native(tensor).buffer; }

View Lowering::PutOnce(TensorId tensor) {
  const size_t bytes = elements(tensor) * sizeof(float);
  kept_[tensor] = true;
  views_[tensor].push_back({kPlainFloat, external(tensor) ? plan_->AddExternal(tensor, bytes)
                                                          : plan_->AddPersistent(bytes)});
  return views_[tensor].front();
}

void Lowering::PutShared(TensorId tensor, const View& view) {
  plan_->Use(view.buffer);
  views_[tensor].push_back(view);
}

Launch Lowering::Conversion(TensorId tensor, const View& from, const View& to) const {
  const Shape& all = shape(tensor);
  ImageShape image = {.channels = elements(tensor)};
  if (all.size() == 4) image = {all[0], all[1], all[2] * all[3]};
  return [stream = stream(), image, from, to](const Buffers& buffers, const Step&) {
    return CheckCall(
        Convert(stream, image, buffers[from.buffer], from.format, buffers[to.buffer], to.format),
        "Convert");
  };
}

}  // namespace psgd::cudnn
