#include "bench/roofline.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "common/philox.h"
#include "engine/graph/graph.h"
#include "engine/ops/cost.h"
#include "engine/ops/rules.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/plugin.h"

namespace psgd {
namespace {

constexpr int kRuns = 5;
constexpr size_t kSlowest = 20;  // nodes with a row of their own

struct Limits {
  double gbps = 0, gflops = 0;
};

// The seconds of a node of `graph`. External tensors are fp32 and random: a device multiplies zeros
// faster.
absl::StatusOr<double> TimeNode(const Graph& graph, int node, Backend* backend) {
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, Executor::Create(graph, backend));
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<ExternalMemory> externals;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (!graph.tensors[i].external) continue;
    std::vector<float> values(static_cast<size_t>(ElementCount(graph.tensors[i].shape)));
    RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), i);
    for (float& value : values) value = random.NextUnit() - 0.5f;
    const size_t bytes = values.size() * sizeof(float);
    PSGD_ASSIGN_OR_RETURN(memory.emplace_back(), backend->Allocate(bytes));
    PSGD_RETURN_IF_ERROR(backend->Upload(values.data(), memory.back()->data(), bytes));
    externals.push_back({static_cast<TensorId>(i), memory.back()->data()});
  }
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceMemory> temporary,
                        backend->Allocate(std::max<size_t>(1, executor->plan().temporary_bytes())));
  PSGD_RETURN_IF_ERROR(executor->Bind(temporary->data(), externals));
  const Step step = {0, 1, 1};
  PSGD_RETURN_IF_ERROR(executor->Run(step, nullptr, nullptr));
  PSGD_ASSIGN_OR_RETURN(const std::vector<double> seconds, executor->TimeNodes(step, kRuns));
  return seconds[static_cast<size_t>(node)];
}

TensorId AddInput(Graph* graph, const char* name, Shape shape) {
  return graph->AddTensor({.name = name, .shape = std::move(shape), .external = true});
}

absl::StatusOr<Limits> MeasureLimits(const NetworkOptions& options) {
  PSGD_ASSIGN_OR_RETURN(
      const std::unique_ptr<Backend> backend,
      LoadBackend(
          options.backend, options.plugin_dir,
          {.threads = options.threads, .device = options.device, .precision = options.precision}));
  // Far larger than caches, and a product that keeps a device busy.
  const int64_t elements = int64_t{1} << 25;
  const int64_t side = backend->computes_on_host() ? 1024 : 8192;
  // Neighbours of the timed node keep its tensors inside the graph, in the type of activations.
  // External tensors would be converted.
  const auto add = [](Graph* graph, TensorId a, TensorId b) {
    return AddSum(graph, "sum", {a, b});
  };
  Graph sum, product;
  const TensorId a = AddInput(&sum, "a", {elements}), b = AddInput(&sum, "b", {elements});
  PSGD_ASSIGN_OR_RETURN(const TensorId left, add(&sum, a, b));
  PSGD_ASSIGN_OR_RETURN(const TensorId right, add(&sum, b, a));
  PSGD_ASSIGN_OR_RETURN(const TensorId both, add(&sum, left, right));
  PSGD_ASSIGN_OR_RETURN(const TensorId added, add(&sum, both, a));
  sum.tensors[added].external = true;
  const TensorId x = AddInput(&product, "x", {side, side}),
                 w = AddInput(&product, "w", {side, side});
  PSGD_ASSIGN_OR_RETURN(const TensorId twice_x, add(&product, x, x));
  PSGD_ASSIGN_OR_RETURN(const TensorId twice_w, add(&product, w, w));
  PSGD_ASSIGN_OR_RETURN(const TensorId y,
                        AddDense(&product, "product", twice_x, twice_w, kNoTensor));
  PSGD_ASSIGN_OR_RETURN(const TensorId z, add(&product, y, y));
  product.tensors[z].external = true;
  constexpr int kTimed = 2;  // in both graphs
  PSGD_ASSIGN_OR_RETURN(const double sum_seconds, TimeNode(sum, kTimed, backend.get()));
  PSGD_ASSIGN_OR_RETURN(const double product_seconds, TimeNode(product, kTimed, backend.get()));
  const size_t real_bytes = RealBytes(options.precision);
  return Limits{CostOf(sum, sum.nodes[kTimed], real_bytes).bytes / sum_seconds / 1e9,
                CostOf(product, product.nodes[kTimed], real_bytes).flops / product_seconds / 1e9};
}

struct Timed {
  std::string name;
  double bytes = 0, flops = 0, seconds = 0;
};

BenchRow RowOf(const Timed& timed, const Limits& limits, double all_seconds) {
  BenchRow row;
  row.bench = "roofline";
  row.name = timed.name;
  row.gbps = timed.bytes / timed.seconds / 1e9;
  row.limit_gbps = limits.gbps;
  const double gflops = timed.flops / timed.seconds / 1e9;
  row.ratio = std::max(row.gbps / limits.gbps, gflops / limits.gflops);
  row.extra = {{"ms", 1e3 * timed.seconds},
               {"share", timed.seconds / all_seconds},
               {"gflops", gflops},
               {"limit_gflops", limits.gflops}};
  return row;
}

bool IsSlower(const Timed& a, const Timed& b) { return a.seconds > b.seconds; }

}  // namespace

absl::StatusOr<std::vector<BenchRow>> MeasureRoofline(Network* network,
                                                      const NetworkOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<Network::NodeTime> nodes, network->TimeNodes(kRuns));
  PSGD_ASSIGN_OR_RETURN(const Limits limits, MeasureLimits(options));
  std::map<std::string, Timed> by_op;
  std::vector<Timed> slowest;
  double all_seconds = 0;
  for (const Network::NodeTime& node : nodes) {
    Timed& op = by_op[node.op];
    op.name = node.op;
    op.bytes += node.bytes;
    op.flops += node.flops;
    op.seconds += node.seconds;
    all_seconds += node.seconds;
    slowest.push_back({node.name, node.bytes, node.flops, node.seconds});
  }
  std::vector<Timed> ops;
  for (const auto& [name, op] : by_op) ops.push_back(op);
  std::stable_sort(ops.begin(), ops.end(), IsSlower);
  std::stable_sort(slowest.begin(), slowest.end(), IsSlower);
  slowest.resize(std::min(slowest.size(), kSlowest));
  std::vector<BenchRow> rows;
  for (const Timed& op : ops) rows.push_back(RowOf(op, limits, all_seconds));
  for (const Timed& node : slowest) rows.push_back(RowOf(node, limits, all_seconds));
  return rows;
}

}  // namespace psgd
