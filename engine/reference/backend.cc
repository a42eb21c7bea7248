#include "engine/reference/backend.h"

#include <variant>

#include "engine/reference/compute.h"
#include "engine/reference/group.h"
#include "engine/runtime/host_memory.h"

namespace psgd {
namespace {

template <typename T>
size_t Bytes(const Tensor& tensor) {
  size_t width = sizeof(T);
  if (tensor.element == Element::kInt32) width = sizeof(int32_t);
  if (tensor.element == Element::kDouble) width = sizeof(double);
  if (tensor.element == Element::kOpaque) width = sizeof(int64_t);  // for max pool's places
  return width * static_cast<size_t>(ElementCount(tensor.shape));
}

template <typename T>
class NodeKernel : public Kernel {
 public:
  NodeKernel(const Graph& graph, const Node& node, const DropoutSource& dropout,
             std::vector<BufferId> inputs, std::vector<BufferId> outputs)
      : graph_(graph),
        node_(node),
        dropout_(dropout),
        input_ids_(std::move(inputs)),
        output_ids_(std::move(outputs)) {}

  void Bind(const Buffers& buffers) override {
    for (BufferId id : input_ids_) inputs_.push_back(buffers[id]);
    for (BufferId id : output_ids_) outputs_.push_back(buffers[id]);
  }

  absl::Status Run(const Step& step) override {
    const reference::Operands<T> operands(graph_, node_, inputs_, outputs_, step, dropout_);
    std::visit([&](const auto& op) { reference::Compute(op, operands); }, node_.op);
    return absl::OkStatus();
  }

 private:
  const Graph& graph_;
  const Node& node_;
  const DropoutSource dropout_;
  const std::vector<BufferId> input_ids_, output_ids_;
  std::vector<void*> inputs_, outputs_;
};

template <typename T>
class ReferenceBackend : public HostBackend {
 public:
  explicit ReferenceBackend(const BackendOptions& options) : options_(options) {}

  absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
      std::span<Backend* const> members) override {
    return reference::MakeGroup(members.size());
  }

  absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> MakeKernels(const Graph& graph,
                                                                   MemoryPlan* plan) override {
    std::vector<BufferId> buffer_of(graph.tensors.size(), kNoBuffer);
    const auto use = [&](const std::vector<TensorId>& tensors) {
      std::vector<BufferId> ids;
      for (TensorId tensor : tensors) {
        BufferId& id = buffer_of[tensor];
        const Tensor& what = graph.tensors[tensor];
        if (id == kNoBuffer) {
          id = what.external ? plan->AddExternal(tensor, Bytes<T>(what))
                             : plan->Add(Bytes<T>(what), tensor);
        }
        plan->Use(id);
        ids.push_back(id);
      }
      return ids;
    };
    std::vector<std::unique_ptr<Kernel>> kernels;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      plan->BeginNode(static_cast<int>(i));
      std::vector<BufferId> inputs = use(node.inputs);
      std::vector<BufferId> outputs = use(node.outputs);
      kernels.push_back(std::make_unique<NodeKernel<T>>(graph, node, options_.dropout,
                                                        std::move(inputs), std::move(outputs)));
    }
    return kernels;
  }

  void EnterThread() override {}

 private:
  const BackendOptions options_;
};

}  // namespace

template <typename T>
std::unique_ptr<Backend> MakeReferenceBackend(const BackendOptions& options) {
  return std::make_unique<ReferenceBackend<T>>(options);
}
template std::unique_ptr<Backend> MakeReferenceBackend<float>(const BackendOptions&);
template std::unique_ptr<Backend> MakeReferenceBackend<double>(const BackendOptions&);

}  // namespace psgd
