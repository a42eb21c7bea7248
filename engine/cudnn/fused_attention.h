// One pass of attention as a graph of operations that cuDNN computes at once. Forward stores one
// number for each query and head, the logarithm of the sum of its exponentials (Dao et al., 2022),
// and no matrix of queries by keys. Backward stores one such matrix, dS, in its workspace, so that
// its bits repeat.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cudnn/attention_pattern.h"
#include "engine/cudnn/engine_plan.h"

namespace psgd::cudnn {

// The memory of a pass beside its AttentionTensors.
enum {
  kLogSums = kAttentionTensors,  // N H T, fp32; forward makes it for backward
  kResultSums,                   // N H T, fp32; scratch of backward
  kQueryLengths,                 // N, int32: the queries of each sample
  kKeyLengths,                   // N, int32: its keys, at least 1
  kAttentionBuffers
};
using AttentionMemory = std::array<void*, kAttentionBuffers>;

struct AttentionProblem {
  enum class Pass { kForward, kBackward };
  Pass pass = Pass::kForward;
  Type type = Type::kBfloat16;
  Shape queries, keys, values;  // N H T D, N H S D, N H S E
  std::array<bool, kAttentionTensors> places_first = {};
  bool causal = false;   // REQUIRES: S = T
  bool lengths = false;  // samples may have fewer keys than S
  float scale = 1;
  bool operator==(const AttentionProblem&) const = default;
};

// Not thread-safe.
class FusedAttention {
 public:
  // UNIMPLEMENTED: psgd does not use cuDNN for this problem. The message is the reason, for people.
  // `plan_only`: nothing is compiled, so it cannot run.
  static absl::StatusOr<std::shared_ptr<FusedAttention>> Plan(const Device& device,
                                                              const AttentionProblem& problem,
                                                              bool plan_only);

  size_t workspace_bytes() const { return plan_.workspace_bytes(); }
  // Whether Run reads kQueryLengths and kKeyLengths. Then it may leave anything in the gradients of
  // keys and values behind the lengths (pull request 44867 of openxla/xla).
  bool reads_lengths() const { return reads_lengths_; }
  absl::Status Run(const Device& device, const AttentionMemory& memory, void* workspace);

 private:
  EnginePlan plan_;
  bool reads_lengths_ = false;
  std::vector<int64_t> ids_;    // of the buffers, then of the numbers
  std::vector<float> numbers_;  // cuDNN reads them from the host's memory at each launch
};

}  // namespace psgd::cudnn
