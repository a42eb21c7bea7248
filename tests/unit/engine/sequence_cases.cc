#include "tests/unit/engine/sequence_cases.h"

#include <utility>

#include "engine/ops/rules.h"
#include "tests/unit/engine/case_builder.h"

namespace psgd::testing {
namespace {

OpCase LayerNormCase(const char* name, const Shape& x, bool wants_input_gradient = true) {
  CaseBuilder b(name, 2e-5);
  const TensorId in = b.Input(x, wants_input_gradient);
  const TensorId gamma = b.Input({x.back()}), beta = b.Input({x.back()});
  return b.Finish(AddLayerNorm(b.graph(), "ln", {}, in, gamma, beta));
}

OpCase SoftmaxCase(const char* name, const Shape& x, const Softmax& op, bool lengths = false) {
  CaseBuilder b(name, 2e-6);
  const TensorId in = b.Input(x);
  return b.Finish(
      AddSoftmax(b.graph(), "softmax", op, in, lengths ? b.Indices({x[0]}) : kNoTensor));
}

// Products of rows x inner and inner x columns.
OpCase MatMulCase(const std::string& name, const Shape& leading, int64_t rows, int64_t inner,
                  int64_t columns, const MatMul& op) {
  CaseBuilder b(name, 2e-6);
  const auto matrices = [&](int64_t height, int64_t width, bool transposed) {
    Shape shape = leading;
    if (transposed) std::swap(height, width);
    shape.insert(shape.end(), {height, width});
    return b.Input(std::move(shape));
  };
  const TensorId left = matrices(rows, inner, op.transpose_a);
  const TensorId right = matrices(inner, columns, op.transpose_b);
  return b.Finish(AddMatMul(b.graph(), "matmul", op, left, right));
}

OpCase TransposeCase(const char* name, Shape x, std::vector<int> permutation) {
  CaseBuilder b(name, 1e-6);
  const TensorId in = b.Input(std::move(x));
  return b.Finish(AddTranspose(b.graph(), "transpose", {std::move(permutation)}, in));
}

OpCase BiasCase(const char* name, Shape x, Shape bias) {
  CaseBuilder b(name, 2e-6);
  const TensorId in = b.Input(std::move(x));
  return b.Finish(AddBias(b.graph(), "bias", in, b.Input(std::move(bias))));
}

}  // namespace

void AppendSequenceCases(std::vector<OpCase>* cases) {
  cases->push_back(LayerNormCase("LayerNorm", {2, 3, 8}));
  cases->push_back(LayerNormCase("LayerNormOneRow", {1, 17}));
  cases->push_back(LayerNormCase("LayerNormOneValue", {3, 1}));
  cases->push_back(LayerNormCase("LayerNormPrimes", {5, 7, 37}));
  cases->push_back(LayerNormCase("LayerNormOfInputs", {3, 5, 16}, false));
  cases->push_back(SoftmaxCase("Softmax", {3, 7}, {}));
  cases->push_back(SoftmaxCase("SoftmaxOfOne", {1}, {}));
  cases->push_back(SoftmaxCase("SoftmaxScaled", {2, 3, 5, 17}, {.scale = 0.3f}));
  cases->push_back(SoftmaxCase("SoftmaxCausal", {2, 3, 5, 5}, {.scale = 0.5f, .causal = true}));
  cases->push_back(SoftmaxCase("SoftmaxCausalMoreKeys", {2, 3, 7}, {.causal = true}));
  cases->push_back(SoftmaxCase("SoftmaxCausalFewerKeys", {2, 5, 3}, {.causal = true}));
  cases->push_back(SoftmaxCase("SoftmaxPadded", {7, 2, 3, 4}, {}, true));
  cases->push_back(SoftmaxCase("SoftmaxCausalPadded", {7, 4, 4}, {.causal = true}, true));
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const std::string flags = std::string(a ? "T" : "N") + (b ? "T" : "N");
      cases->push_back(MatMulCase("MatMulPlain" + flags, {}, 5, 7, 3, {a, b}));
      cases->push_back(MatMulCase("MatMulBatch" + flags, {2, 3}, 17, 5, 16, {a, b}));
      cases->push_back(MatMulCase("MatMulOfOne" + flags, {3}, 1, 1, 1, {a, b}));
    }
  }
  cases->push_back(MatMulCase("MatMulRow", {3}, 1, 13, 1, {}));
  cases->push_back(TransposeCase("Transpose", {3, 7}, {1, 0}));
  cases->push_back(TransposeCase("TransposeHeads", {2, 5, 3, 7}, {0, 2, 1, 3}));
  cases->push_back(TransposeCase("TransposeCycle", {2, 3, 5, 1, 7}, {4, 0, 3, 1, 2}));
  cases->push_back(TransposeCase("TransposeNothing", {3, 1, 2}, {0, 1, 2}));
  cases->push_back(TransposeCase("TransposeOneAxis", {5}, {0}));
  cases->push_back(BiasCase("BiasOfRows", {2, 3, 17}, {17}));
  cases->push_back(BiasCase("BiasOfPositions", {5, 3, 7}, {3, 7}));
  cases->push_back(BiasCase("BiasOfAll", {3, 1}, {3, 1}));
}

}  // namespace psgd::testing
