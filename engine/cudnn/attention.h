// The attentions of a graph that run as one cuDNN plan a pass. Others run node by node.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/cudnn/attention_pattern.h"
#include "engine/cudnn/fused_attention.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// The plans of a device. Layers are equal, so most attentions of a network share theirs.
class AttentionPlans {
 public:
  // As FusedAttention::Plan.
  absl::StatusOr<std::shared_ptr<FusedAttention>> Find(const Device& device,
                                                       const AttentionProblem& problem,
                                                       bool plan_only);

 private:
  using Found = absl::StatusOr<std::shared_ptr<FusedAttention>>;
  std::vector<std::pair<AttentionProblem, Found>> known_;
};

class Attentions {
 public:
  Attentions() = default;
  // Takes each attention of the graph whose passes can be planned. Of other attentions each node
  // runs by itself.
  absl::Status Plan(const Graph& graph, const Device& device, Type type, bool plan_only,
                    AttentionPlans* plans);

  // Lowers a node of one of these attentions: the launch of a pass is at one of its nodes, the
  // others launch nothing. False: the node belongs to none.
  bool Lower(const Context& c);

  // How the attentions of the graph are computed, for people. Empty: there are none.
  std::string Note() const;

 private:
  using Pass = AttentionProblem::Pass;
  struct Attention {
    AttentionPattern pattern;
    std::shared_ptr<FusedAttention> forward, backward;  // without gradients the second is null
    BufferId log_sums = kNoBuffer;
  };

  void LowerPass(Pass pass, const Context& c, Attention* attention);

  std::vector<std::shared_ptr<Attention>> of_node_;  // by node; null: in none
  int planned_ = 0;                                  // attentions
  std::map<std::string, int> refused_;               // attentions, by reason
};

}  // namespace psgd::cudnn
