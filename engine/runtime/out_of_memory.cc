#include "engine/runtime/out_of_memory.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/graph/recompute.h"
#include "engine/runtime/memory_report.h"
#include "engine/zoo/zoo.h"

namespace psgd {
namespace {

constexpr size_t kNamed = 5;

std::string Mebibytes(size_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

// "data.batch about 12", or that not even one sample fits. Empty if planning fails.
std::string WhatFits(const ModelConfig& model, const SampleShape& shape,
                     const NetworkOptions& options, size_t available) {
  const absl::StatusOr<int> largest = LargestBatch(model, shape, options, available);
  if (!largest.ok()) return "";
  return *largest == 0 ? "not even one sample fits"
                       : absl::StrCat("a data.batch of about ", *largest, " fits");
}

}  // namespace

std::vector<std::pair<std::string, size_t>> LargestTensors(const PlannedNetwork& network,
                                                           size_t most) {
  std::map<std::string, size_t> bytes;
  const Graph& train = network.train.graph;
  for (const Parameter& parameter : train.parameters) {
    const auto count = static_cast<size_t>(ElementCount(train.shape(parameter.value)));
    bytes[absl::StrCat(train.tensors[parameter.value].name, " with its gradient")] +=
        2 * count * sizeof(float);
  }
  const bool training = network.train_executor->plan().temporary_bytes() >=
                        network.evaluate_executor->plan().temporary_bytes();
  const Graph& graph = training ? train : network.evaluate.graph;
  const MemoryPlan& plan =
      training ? network.train_executor->plan() : network.evaluate_executor->plan();
  const int crowded = plan.CrowdedNode();
  for (const Buffer& buffer : plan.buffers()) {
    const bool alive = buffer.kind == Buffer::Kind::kTemporary && buffer.first <= crowded &&
                       crowded <= buffer.last;
    const bool kept = buffer.kind == Buffer::Kind::kPersistent;
    if (!alive && !kept) continue;
    const std::string name =
        buffer.tensor == kNoTensor
            ? absl::StrCat("scratch memory of ", graph.nodes[buffer.first].name)
            : graph.tensors[buffer.tensor].name;
    bytes[kept ? absl::StrCat(name, " in another layout") : name] += buffer.bytes;
  }
  std::vector<std::pair<std::string, size_t>> largest(bytes.begin(), bytes.end());
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  largest.resize(std::min(largest.size(), most));
  return largest;
}

absl::Status OutOfMemory(const ModelConfig& model, const SampleShape& shape, int batch,
                         const NetworkOptions& options, const PlannedNetwork& network,
                         size_t available) {
  std::string text =
      absl::StrCat("not enough memory: ", ModelName(model), " with batches of ", batch, " takes ",
                   Mebibytes(ReportMemory(network).total()), ", and ",
                   available > 0 ? absl::StrCat(Mebibytes(available), " are free")
                                 : "the system does not give them");
  std::vector<std::string> tensors;
  for (const auto& [name, bytes] : LargestTensors(network, kNamed)) {
    tensors.push_back(absl::StrCat(name, " ", Mebibytes(bytes)));
  }
  absl::StrAppend(&text, "; the largest when the most is in use: ", absl::StrJoin(tensors, ", "));
  std::vector<std::string> ways;
  ModelConfig recomputing = model;
  recomputing.set_recompute(kRecomputeAuto);
  const bool other = model.recompute() != kRecomputeAuto;
  if (available > 0) {
    if (std::string fits = WhatFits(model, shape, options, available); !fits.empty()) {
      ways.push_back(std::move(fits));
    }
    if (other) {
      std::string fits = WhatFits(recomputing, shape, options, available);
      if (!fits.empty()) {
        ways.push_back(absl::StrCat("with model.recompute: auto, ", std::move(fits)));
      }
    }
  } else {
    ways.push_back("take a smaller data.batch");
    const auto report = PlanMemory(recomputing, shape, batch, options);
    if (other && report.ok()) {
      ways.push_back(absl::StrCat("model.recompute: auto takes ", Mebibytes(report->total())));
    }
  }
  if (!ways.empty()) absl::StrAppend(&text, "; ", absl::StrJoin(ways, "; "));
  return absl::ResourceExhaustedError(text);
}

}  // namespace psgd
