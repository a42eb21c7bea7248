#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/cudnn/attention.h"
#include "engine/cudnn/chain.h"
#include "engine/cudnn/feed.h"
#include "engine/cudnn/group.h"
#include "engine/cudnn/lower.h"
#include "engine/cudnn/orthogonal.h"
#include "engine/runtime/plugin.h"

namespace psgd {
namespace {

using cudnn::Type;

Type TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return Type::kBfloat16;
    case Precision::kFp16:
      return Type::kHalf;
    case Precision::kFp32:
    case Precision::kTf32:
      break;
  }
  return Type::kFloat;
}

// Null `chain`: the node has a kernel of its own.
void LowerNode(const cudnn::Chain* chain, const cudnn::Context& context) {
  if (chain == nullptr) {
    return std::visit([&](const auto& op) { cudnn::Lower(op, context); }, context.node.op);
  }
  const Op& first = context.lowering.node(chain->nodes.front()).op;
  const Op& last = context.lowering.node(chain->nodes.back()).op;
  const bool products =
      std::holds_alternative<Dense>(first) || std::holds_alternative<DenseBackwardData>(first);
  const bool sum = std::holds_alternative<Sum>(last);
  const auto lower = products && sum                         ? cudnn::LowerProductSum
                     : products                              ? cudnn::LowerDenseRelu
                     : std::holds_alternative<Sum>(first)    ? cudnn::LowerSumChain
                     : std::holds_alternative<Conv2d>(first) ? cudnn::LowerConvolutionChain
                                                             : cudnn::LowerNormChain;
  lower(*chain, context);
}

class CudnnBackend : public Backend {
 public:
  CudnnBackend(const BackendOptions& options, std::unique_ptr<cudnn::Device> device)
      : options_(options), device_(std::move(device)) {}

  size_t AvailableMemory() const override { return device_->AvailableMemory(); }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t bytes) override {
    return device_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(size_t bytes) override {
    return device_->AllocateHost(bytes);
  }
  bool computes_on_host() const override { return false; }

  absl::Status Upload(const void* host, void* device, size_t bytes) override {
    return cudnn::CheckCall(
        cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, device_->stream()),
        "cudaMemcpyAsync");
  }
  absl::Status Download(const void* device, void* host, size_t bytes) override {
    PSGD_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, device_->stream()));
    PSGD_CUDA(cudaStreamSynchronize(device_->stream()));
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Copy>> StartDownload(const void* device, void* host,
                                                      size_t bytes) override {
    return device_->StartDownload(device, host, bytes);
  }

  absl::StatusOr<std::unique_ptr<Feed>> MakeFeed(size_t bytes) override {
    return cudnn::MakeFeed(*device_, bytes);
  }
  absl::Status Update(std::span<const ParameterUpdate> updates,
                      const GradientBounds& bounds) override {
    double* sums = nullptr;
    if (bounds.norm > 0) {
      PSGD_ASSIGN_OR_RETURN(sums, SumsOf(updates));
    }
    return cudnn::CheckCall(
        cudnn::UpdateParameters(device_->stream(), updates.data(), updates.size(), bounds, sums),
        "UpdateParameters");
  }
  absl::Status MakeOrthogonal(size_t rows, size_t columns, float* x, float* scratch) override {
    const ParameterUpdate of = {.size = rows * columns};
    PSGD_ASSIGN_OR_RETURN(double* const sums, SumsOf({&of, 1}));
    const cublasComputeType_t compute =
        options_.precision == Precision::kFp32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
    return cudnn::MakeOrthogonal(*device_, compute, rows, columns, {x, scratch, sums});
  }
  absl::StatusOr<std::unique_ptr<Mark>> SetMark() override { return device_->SetMark(); }

  absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> MakeKernels(const Graph& graph,
                                                                   MemoryPlan* plan) override {
    std::vector<std::unique_ptr<Kernel>> kernels;
    cudnn::Lowering lowering(graph, plan, device_.get(), TypeOf(options_.precision));
    std::vector<cudnn::Chain> chains;
    cudnn::Attentions attentions;
    if (options_.fuse) {
      chains = cudnn::FindChains(graph);
      PSGD_RETURN_IF_ERROR(attentions.Plan(graph, *device_, TypeOf(options_.precision),
                                           options_.plan_only, &attention_plans_));
    }
    note_ = attentions.Note();
    std::vector<const cudnn::Chain*> chain_of(graph.nodes.size());  // by node; null: in none
    for (const cudnn::Chain& chain : chains) {
      for (int i : chain.nodes) chain_of[i] = &chain;
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      lowering.BeginNode(static_cast<int>(i));
      const cudnn::Context context = {node, lowering, options_};
      if (!attentions.Lower(context)) LowerNode(chain_of[i], context);
      if (!lowering.status().ok()) return Annotate(lowering.status(), node.name);
      kernels.push_back(lowering.EndNode());
    }
    return kernels;
  }

  std::string note() const override { return note_; }
  void EnterThread() override { device_->Enter(); }
  absl::Status BeginRun(const Step& step) override {
    return cudnn::CheckCall(
        cudnn::SetStepValues(device_->stream(),
                             {.number = step.number, .loss_scale = step.loss_scale},
                             device_->step()),
        "SetStepValues");
  }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& work) override {
    return device_->Record(work);
  }
  absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
      std::span<Backend* const> members) override {
    std::vector<cudnn::Device*> devices;
    for (Backend* member : members) {
      devices.push_back(static_cast<CudnnBackend*>(member)->device_.get());
    }
    return cudnn::MakeGroup(devices);
  }
  absl::StatusOr<bool> Overflowed() override {
    cudnn::StepValues values;
    PSGD_RETURN_IF_ERROR(Download(device_->step(), &values, sizeof values));
    return values.overflowed != 0;
  }

 private:
  // Memory for the sums of squares of an update.
  absl::StatusOr<double*> SumsOf(std::span<const ParameterUpdate> updates) {
    const size_t sums = cudnn::UpdateSums(updates.data(), updates.size());
    if (sums > update_sums_) {
      PSGD_ASSIGN_OR_RETURN(update_memory_, device_->Allocate(sums * sizeof(double)));
      update_sums_ = sums;
    }
    return static_cast<double*>(update_memory_->data());
  }

  const BackendOptions options_;
  const std::unique_ptr<cudnn::Device> device_;
  cudnn::AttentionPlans attention_plans_;
  std::string note_;                             // of the last MakeKernels
  std::unique_ptr<DeviceMemory> update_memory_;  // see SumsOf
  size_t update_sums_ = 0;
};

absl::StatusOr<std::unique_ptr<Backend>> Make(const BackendOptions& options) {
  PSGD_ASSIGN_OR_RETURN(auto device, cudnn::Device::Open(options.device));
  // cuDNN has few engines for it there, so nearly all convolutions would run on our slow kernel.
  if (options.precision == Precision::kBf16 && device->capability() < 80) {
    return absl::FailedPreconditionError(
        absl::StrCat(device->model(), " has no bf16 products: use --precision fp16"));
  }
  return std::make_unique<CudnnBackend>(options, std::move(device));
}

}  // namespace
}  // namespace psgd

extern "C" __attribute__((visibility("default"))) bool psgd_make_backend(
    uint32_t interface, const psgd::BackendOptions& options,
    absl::StatusOr<std::unique_ptr<psgd::Backend>>* made) {
  if (interface != PSGD_BACKEND_INTERFACE) return false;
  *made = psgd::Make(options);
  return true;
}
