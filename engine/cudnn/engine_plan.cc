#include "engine/cudnn/engine_plan.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace psgd::cudnn {
namespace {

absl::Status AppendEngines(const GraphDescriptor& graph, cudnnBackendHeurMode_t mode,
                           std::vector<GraphDescriptor>* engines) {
  GraphDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  PSGD_RETURN_IF_ERROR(heuristic.Finalize());
  int64_t count = 0;
  PSGD_CUDA(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<GraphDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(found.back().get());
  }
  PSGD_CUDA(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()));
  found.resize(static_cast<size_t>(count));
  for (GraphDescriptor& engine : found) engines->push_back(std::move(engine));
  return absl::OkStatus();
}

// Notes of engines that round more than any precision promises.
constexpr cudnnBackendNumericalNote_t kBelowAll[] = {
    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
// Notes of engines below full fp32: they round inputs, or their transforms lose bits.
constexpr cudnnBackendNumericalNote_t kBelowFp32[] = {
    CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_FFT,
    CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13};

// UNIMPLEMENTED if the engine's results do not repeat to the bit or lack the requested precision.
absl::Status CheckNotes(const GraphDescriptor& config, bool full_fp32) {
  GraphDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  PSGD_CUDA(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  PSGD_CUDA(cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                     CUDNN_TYPE_NUMERICAL_NOTE, static_cast<int64_t>(notes.size()),
                                     &count, notes.data()));
  notes.resize(static_cast<size_t>(count));
  const auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  };
  const bool rounds = std::any_of(std::begin(kBelowAll), std::end(kBelowAll), has) ||
                      (full_fp32 && std::any_of(std::begin(kBelowFp32), std::end(kBelowFp32), has));
  if (!rounds && !has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return absl::OkStatus();
  return absl::UnimplementedError(
      "cuDNN's engines do not repeat their results to the bit, or round more than is promised");
}

}  // namespace

cudnnDataType_t CudnnType(Type type) {
  switch (type) {
    case Type::kBfloat16:
      return CUDNN_DATA_BFLOAT16;
    case Type::kHalf:
      return CUDNN_DATA_HALF;
    case Type::kFloat:
      break;
  }
  return CUDNN_DATA_FLOAT;
}

absl::StatusOr<GraphDescriptor> MakeOperationGraph(
    const Device& device, const std::vector<const GraphDescriptor*>& operations) {
  GraphDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, device.dnn())
      .SetDescriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  PSGD_RETURN_IF_ERROR(graph.Finalize());
  return graph;
}

absl::StatusOr<std::vector<GraphDescriptor>> FindEngines(const GraphDescriptor& graph) {
  std::vector<GraphDescriptor> engines;
  const absl::Status best = AppendEngines(graph, CUDNN_HEUR_MODE_A, &engines);
  const absl::Status rest = AppendEngines(graph, CUDNN_HEUR_MODE_FALLBACK, &engines);
  if (engines.empty()) {
    PSGD_RETURN_IF_ERROR(best);
    PSGD_RETURN_IF_ERROR(rest);
  }
  return engines;
}

absl::StatusOr<EnginePlan> EnginePlan::Make(const Device& device, const GraphDescriptor& engine,
                                            const EngineDemands& demands) {
  PSGD_RETURN_IF_ERROR(CheckNotes(engine, demands.full_fp32));
  EnginePlan made;
  if (demands.runs) {
    made.plan_ = GraphDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    made.plan_.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, device.dnn())
        .SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
    PSGD_RETURN_IF_ERROR(made.plan_.Finalize());
  }
  PSGD_ASSIGN_OR_RETURN(const int64_t wanted,
                        demands.runs ? made.plan_.GetInt(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
                                     : engine.GetInt(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
  made.workspace_bytes_ = static_cast<size_t>(wanted);
  if (made.workspace_bytes_ > demands.most_workspace) {
    return absl::UnimplementedError(
        absl::StrCat("cuDNN's engines want a workspace of ", wanted >> 20, " MiB"));
  }
  return made;
}

absl::Status EnginePlan::Execute(const Device& device, const std::vector<int64_t>& ids,
                                 const std::vector<void*>& data, void* workspace) const {
  GraphDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.SetMany(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
               static_cast<int64_t>(data.size()), data.data())
      .SetInts(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  PSGD_RETURN_IF_ERROR(pack.Finalize());
  return CheckCall(cudnnBackendExecute(device.dnn(), plan_.get(), pack.get()),
                   "cudnnBackendExecute");
}

}  // namespace psgd::cudnn
