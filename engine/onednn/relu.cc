#include "engine/onednn/lower.h"

namespace psgd::onednn {

TensorId FuseRelu(const Context& c, TensorId y, dnnl::primitive_attr* attributes) {
  const int user = c.lowering.SoleUser(y);
  if (user < 0 || !std::holds_alternative<Relu>(c.lowering.graph().nodes[user].op)) return y;
  dnnl::post_ops then;
  then.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  attributes->set_post_ops(then);
  c.lowering.Fuse(user);
  return c.lowering.graph().nodes[user].outputs[0];
}

// A leaky relu without a slope below zero: oneDNN has one primitive for both.
constexpr Activation kFlatBelowZero = {.kind = Activation::Kind::kLeakyRelu, .alpha = 0};

void Lower(const Relu&, const Context& c) { Lower(kFlatBelowZero, c); }
void Lower(const ReluBackward&, const Context& c) { Lower(ActivationBackward{kFlatBelowZero}, c); }

}  // namespace psgd::onednn
