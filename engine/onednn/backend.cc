#include <omp.h>

#include <cstdint>
#include <memory>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/host_memory.h"
#include "engine/onednn/lower.h"
#include "engine/plugin.h"

namespace psgd {
namespace {

class OnednnBackend : public HostBackend {
 public:
  explicit OnednnBackend(const BackendOptions& options) : options_(options) {}

  absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> MakeKernels(const Graph& graph,
                                                                   MemoryPlan* plan) override {
    std::vector<std::unique_ptr<Kernel>> kernels;
    onednn::Lowering lowering(graph, plan, engine_);
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

  // The number of threads is a setting of the calling thread.
  void EnterThread() override { omp_set_num_threads(options_.threads); }

 private:
  const BackendOptions options_;
  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  const dnnl::stream stream_{engine_};
};

}  // namespace
}  // namespace psgd

extern "C" __attribute__((visibility("default"))) bool psgd_make_backend(
    uint32_t interface, const psgd::BackendOptions& options,
    absl::StatusOr<std::unique_ptr<psgd::Backend>>* made) {
  if (interface != PSGD_BACKEND_INTERFACE) return false;
  try {
    *made = std::make_unique<psgd::OnednnBackend>(options);
  } catch (const dnnl::error& error) {
    *made = absl::FailedPreconditionError(
        absl::StrCat("oneDNN does not work on this machine: ", error.what()));
  }
  return true;
}
