#include <omp.h>

#include <cstdint>
#include <memory>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/onednn/lower.h"
#include "engine/runtime/host_memory.h"
#include "engine/runtime/plugin.h"

namespace psgd {
namespace {

class OnednnBackend : public HostBackend {
 public:
  explicit OnednnBackend(const BackendOptions& options) : options_(options) {}

  absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> MakeKernels(const Graph& graph,
                                                                   MemoryPlan* plan) override {
    std::vector<std::unique_ptr<Kernel>> kernels;
    onednn::Lowering lowering(graph, plan, engine_, real_);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      lowering.BeginNode(static_cast<int>(i));
      if (!lowering.fused(static_cast<int>(i))) {
        const onednn::Context context = {node, lowering, options_.dropout};
        try {
          std::visit([&](const auto& op) { onednn::Lower(op, context); }, node.op);
        } catch (const dnnl::error& error) {
          return absl::UnimplementedError(
              absl::StrCat(node.name, ": oneDNN cannot compute this: ", error.what()));
        }
      }
      kernels.push_back(lowering.EndNode(stream_));
    }
    return kernels;
  }

  // OpenMP keeps the number of threads by calling thread.
  void EnterThread() override { omp_set_num_threads(options_.threads); }

 private:
  const BackendOptions options_;
  const onednn::Type real_ =
      options_.precision == Precision::kBf16 ? onednn::Type::bf16 : onednn::Type::f32;
  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  const dnnl::stream stream_{engine_};
};

absl::Status CheckInstructions(Precision precision) {
  if (precision == Precision::kFp32) return absl::OkStatus();
  if (precision != Precision::kBf16) {
    return absl::InvalidArgumentError(
        "processors do not compute in tf32 or fp16: use --precision fp32 or bf16");
  }
  // Without these instructions oneDNN converts to fp32 and back, which is slower than fp32.
  const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  const auto there = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  if ((there & needed) == needed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this processor has no bf16 instructions (avx512_bf16): use --precision fp32");
}

}  // namespace
}  // namespace psgd

extern "C" __attribute__((visibility("default"))) bool psgd_make_backend(
    uint32_t interface, const psgd::BackendOptions& options,
    absl::StatusOr<std::unique_ptr<psgd::Backend>>* made) {
  if (interface != PSGD_BACKEND_INTERFACE) return false;
  if (absl::Status status = psgd::CheckInstructions(options.precision); !status.ok()) {
    *made = std::move(status);
    return true;
  }
  try {
    *made = std::make_unique<psgd::OnednnBackend>(options);
  } catch (const dnnl::error& error) {
    *made = psgd::FailedPreconditionError("oneDNN does not work on this machine: ", error.what());
  }
  return true;
}
