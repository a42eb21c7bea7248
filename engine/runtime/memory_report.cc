#include "engine/runtime/memory_report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <variant>

#include "engine/graph/memory_plan.h"
#include "engine/runtime/plugin.h"

namespace psgd {
namespace {

constexpr int kMostBatch = 1 << 20;

size_t BytesOf(const Graph& graph, TensorId tensor) {
  return static_cast<size_t>(ElementCount(graph.shape(tensor))) * sizeof(float);
}

// Adds the graph's temporary and persistent memory.
void Add(const MemoryPlan& plan, MemoryReport* report) {
  size_t apart = 0;
  for (const Buffer& buffer : plan.buffers()) {
    if (buffer.kind == Buffer::Kind::kTemporary) apart += buffer.bytes;
  }
  report->step = std::max(report->step, plan.temporary_bytes());
  report->step_without_reuse = std::max(report->step_without_reuse, apart);
  report->kept += plan.persistent_bytes();
}

// Adds the bytes that are alive at the fullest node.
void AddFullest(const ModelGraph& model, const MemoryPlan& plan, MemoryReport* report) {
  const int node = plan.CrowdedNode();
  for (const Buffer& buffer : plan.buffers()) {
    if (buffer.kind != Buffer::Kind::kTemporary || buffer.first > node || buffer.last < node)
      continue;
    const bool gradient =
        buffer.tensor >= model.gradients_begin && buffer.tensor < model.gradients_end;
    size_t& kind = buffer.tensor == kNoTensor ? report->fullest_scratch
                   : gradient                 ? report->fullest_gradients
                                              : report->fullest_activations;
    kind += buffer.bytes;
  }
}

}  // namespace

MemoryReport ReportMemory(const PlannedNetwork& network) {
  MemoryReport report;
  const ModelGraph& train = network.train;
  for (const Parameter& parameter : train.graph.parameters) {
    report.weights += BytesOf(train.graph, parameter.value);
    report.gradients += BytesOf(train.graph, parameter.gradient);
  }
  for (const TensorId tensor : {train.input, train.values, train.labels, train.targets}) {
    if (tensor != kNoTensor) report.batch += BytesOf(train.graph, tensor);
  }
  if (!network.backend->computes_on_host()) {
    report.batch *= 2;  // the present batch and the next
    report.ahead = report.weights;
  }
  Add(network.train_executor->plan(), &report);
  Add(network.evaluate_executor->plan(), &report);
  AddFullest(train, network.train_executor->plan(), &report);
  report.note = network.train_executor->note();
  return report;
}

absl::StatusOr<MemoryReport> PlanMemory(const ModelConfig& model, const SampleShape& shape,
                                        int batch, const NetworkOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const auto network, PlannedNetwork::Create(model, shape, batch, options,
                                                                   /*plan_only=*/true));
  MemoryReport report = ReportMemory(*network);
  report.scratch_may_differ =
      !network->backend->computes_on_host() &&
      std::any_of(network->train.graph.nodes.begin(), network->train.graph.nodes.end(),
                  [](const Node& node) { return std::holds_alternative<Conv2d>(node.op); });
  return report;
}

absl::StatusOr<size_t> AvailableToEach(const std::vector<NetworkOptions>& replicas) {
  std::map<int, size_t> sharing;  // by device
  for (const NetworkOptions& replica : replicas) ++sharing[replica.device];
  size_t least = std::numeric_limits<size_t>::max();
  for (const auto& [device, count] : sharing) {
    BackendOptions options;
    options.device = device;
    PSGD_ASSIGN_OR_RETURN(const auto backend,
                          LoadBackend(replicas[0].backend, replicas[0].plugin_dir, options));
    least = std::min(least, backend->AvailableMemory() / count);
  }
  return least;
}

absl::StatusOr<int> LargestBatch(const ModelConfig& model, const SampleShape& shape,
                                 const NetworkOptions& options, size_t available) {
  const auto bytes = [&](int batch) -> absl::StatusOr<size_t> {
    PSGD_ASSIGN_OR_RETURN(const MemoryReport report, PlanMemory(model, shape, batch, options));
    return report.total();
  };
  // Batch normalization refuses a batch of one sample with one pixel.
  const int fewest = bytes(1).ok() ? 1 : 2;
  PSGD_ASSIGN_OR_RETURN(const size_t least, bytes(fewest));
  if (least > available) return 0;
  // The largest batch known to fit, and the smallest known not to fit.
  int fits = fewest, too_large = kMostBatch;
  // Bytes are nearly linear in the batch, so a few guesses along the line end the search.
  int other = 8;
  for (int guess = 0; guess < 12 && too_large - fits > std::max(1, fits / 50); ++guess) {
    const auto taken = bytes(other);
    // An error also means too large: layers refuse sizes that overflow an index.
    const bool enough = taken.ok() && *taken <= available;
    (enough ? fits : too_large) = other;
    const double slope =
        taken.ok() && other > fewest
            ? static_cast<double>(*taken - std::min(*taken, least)) / (other - fewest)
            : 0;
    const double along = slope > 0 ? fewest + static_cast<double>(available - least) / slope : 0;
    const int middle = fits + (too_large - fits) / 2;
    const bool inside = along > fits && along < too_large;
    other = inside ? static_cast<int>(along) : middle;
    if (other <= fits) other = fits + 1;
  }
  return fits;
}

}  // namespace psgd
