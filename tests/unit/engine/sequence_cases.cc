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

// A softmax masked by the lengths of rows of tokens. About every kIndexLimit-th token is padding.
OpCase LengthsCase(const char* name, const Shape& x, int64_t tokens) {
  CaseBuilder b(name, 2e-6);
  const TensorId in = b.Input(x), rows = b.Indices({x[0], tokens});
  const TensorId lengths = b.Check(AddLengths(b.graph(), "lengths", {.places = x.back()}, rows));
  return b.Finish(AddSoftmax(b.graph(), "softmax", {}, in, lengths));
}

// A product of rows x inner and inner x columns.
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

OpCase RowBiasCase(const char* name, Shape x, Shape bias) {
  CaseBuilder b(name, 2e-6);
  const TensorId in = b.Input(std::move(x));
  return b.Finish(AddRowBias(b.graph(), "bias", in, b.Input(std::move(bias))));
}

OpCase EmbeddingCase(const char* name, Shape index, int64_t rows, int64_t width) {
  CaseBuilder b(name, 1e-6);
  const TensorId places = b.Indices(std::move(index));
  return b.Finish(AddEmbedding(b.graph(), "embedding", places, b.Input({rows, width})));
}

OpCase EmbeddingBagCase(const char* name, const Shape& entries, int64_t rows, int64_t width) {
  CaseBuilder b(name, 2e-6);
  const TensorId index = b.Indices(entries), value = b.Input(entries, /*wants_gradient=*/false);
  return b.Finish(AddEmbeddingBag(b.graph(), "bag", index, value, b.Input({rows, width})));
}

OpCase AttentionCase(const char* name, const Shape& q, int64_t keys, bool causal, bool padded) {
  CaseBuilder b(name, 5e-6);
  const TensorId query = b.Input(q), key = b.Input({q[0], q[1], keys, q[3]});
  const TensorId value = b.Input({q[0], q[1], keys, q[3] + 1});
  const TensorId lengths = padded ? b.Indices({q[0]}) : kNoTensor;
  return b.Finish(AddAttention(b.graph(), "attention", {causal}, query, key, value, lengths));
}

// Attention with the transposes around it, which the GPU engine computes in one kernel a pass in 16
// bits where it can. x: N T H D.
OpCase HeadsCase(const char* name, const Shape& x, int64_t keys, bool causal, bool padded) {
  CaseBuilder b(name, 5e-6);
  const auto exchange = [&](const char* of, TensorId from) {
    return b.Check(AddTranspose(b.graph(), of, {{0, 2, 1, 3}}, from));
  };
  const Shape other = {x[0], keys, x[2], x[3]};
  const TensorId query = exchange("q", b.Input(x)), key = exchange("k", b.Input(other));
  const TensorId value = exchange("v", b.Input(other));
  const TensorId lengths = padded ? b.Indices({x[0]}) : kNoTensor;
  const TensorId heads =
      b.Check(AddAttention(b.graph(), "attention", {causal}, query, key, value, lengths));
  return b.Finish(AddTranspose(b.graph(), "y", {{0, 2, 1, 3}}, heads));
}

// As torch.bmm multiplies. x: T N*H D.
OpCase BatchedHeadsCase(const char* name, const Shape& x, bool causal) {
  CaseBuilder b(name, 5e-6);
  Graph* g = b.graph();
  const auto exchange = [&](const char* of, TensorId from) {
    return b.Check(AddTranspose(g, of, {{1, 0, 2}}, from));
  };
  const TensorId query = exchange("q", b.Input(x)), key = exchange("k", b.Input(x));
  const MatMul product = {.transpose_b = true, .scale = 0.25f};
  TensorId y = b.Check(AddMatMul(g, "scores", product, query, key));
  y = b.Check(AddSoftmax(g, "weights", {.causal = causal}, y, kNoTensor));
  y = b.Check(AddMatMul(g, "values", {}, y, exchange("v", b.Input(x))));
  return b.Finish(AddTranspose(g, "y", {{1, 0, 2}}, y));
}

// The weights of one attention are the left factor of the scores of another.
OpCase AttentionOfAttentionCase() {
  constexpr int64_t kPlaces = 512;
  CaseBuilder b("AttentionCausalOfAttention", 5e-6);
  Graph* g = b.graph();
  const TensorId query = b.Input({1, kPlaces, 2}), key = b.Input({1, kPlaces, 2});
  TensorId x = b.Check(AddMatMul(g, "scores", {.transpose_b = true}, query, key));
  x = b.Check(AddSoftmax(g, "weights", {.causal = true}, x, kNoTensor));
  x = b.Check(AddMatMul(g, "scores2", {}, x, b.Input({1, kPlaces, kPlaces}, false)));
  x = b.Check(AddSoftmax(g, "weights2", {.causal = true}, x, kNoTensor));
  OpCase made = b.Finish(AddMatMul(g, "values", {}, x, b.Input({1, kPlaces, 2})));
  made.bf16_bound = 0.03;  // more roundings than of one op
  return made;
}

OpCase RecurrentCase(const char* name, Recurrent::Kind kind, const Shape& x, int64_t hidden,
                     bool wants_input_gradient = true) {
  CaseBuilder b(name, 5e-6);
  const Recurrent op = {kind};
  const TensorId in = b.Input(x, wants_input_gradient);
  const int64_t rows = op.gates() * hidden;
  const RecurrentParameters p = {b.Input({rows, x[2]}), b.Input({rows, hidden}), b.Input({rows}),
                                 b.Input({rows})};
  return b.Finish(AddRecurrent(b.graph(), "rnn", op, in, p));
}

OpCase SmoothedCase(const char* name, Shape logits, Shape labels, const SoftmaxCrossEntropy& op) {
  CaseBuilder b(name, 2e-6);
  const int classes = static_cast<int>(logits.size() == 4 ? logits[1] : logits.back());
  const TensorId x = b.Input(std::move(logits));
  return b.Finish(AddSoftmaxCrossEntropy(b.graph(), "loss", op, x, b.Labels(labels, classes)));
}

OpCase ElementLossCase(const char* name, Shape logits, Shape labels, ElementLoss::Kind kind) {
  CaseBuilder b(name, 2e-6);
  const int classes = static_cast<int>(logits.size() == 4 ? logits[1] : logits.back());
  const TensorId x = b.Input(std::move(logits));
  return b.Finish(AddElementLoss(b.graph(), "loss", {kind}, x, b.Labels(labels, classes)));
}

// With given targets, of which those of counts are positive.
OpCase TargetLossCase(const char* name, const Shape& x, ElementLoss::Kind kind) {
  CaseBuilder b(name, 2e-6);
  const TensorId in = b.Input(x);
  const TensorId targets =
      kind == ElementLoss::Kind::kPoisson ? b.Positive(x) : b.Input(x, /*wants_gradient=*/false);
  return b.Finish(AddElementLoss(b.graph(), "loss", {kind}, in, b.Labels({x[0]}, 1), targets));
}

}  // namespace

void AddSequenceCases(std::vector<OpCase>* cases) {
  cases->push_back(LayerNormCase("LayerNorm", {2, 3, 8}));
  cases->push_back(LayerNormCase("LayerNormOneRow", {1, 17}));
  cases->push_back(LayerNormCase("LayerNormOneValue", {3, 1}));
  cases->push_back(LayerNormCase("LayerNormPrimes", {5, 7, 37}));
  cases->push_back(LayerNormCase("LayerNormVector", {5, 128}));
  cases->push_back(LayerNormCase("LayerNormLongRows", {3, 1032}));
  cases->push_back(LayerNormCase("LayerNormManyRows", {530, 5}));
  cases->push_back(LayerNormCase("LayerNormOfInputs", {3, 5, 16}, false));
  cases->push_back(SoftmaxCase("Softmax", {3, 7}, {}));
  cases->push_back(SoftmaxCase("SoftmaxOfOne", {1}, {}));
  cases->push_back(SoftmaxCase("SoftmaxVector", {5, 128}, {}));
  cases->push_back(SoftmaxCase("SoftmaxLongRows", {3, 1032}, {}));
  cases->push_back(SoftmaxCase("SoftmaxScaled", {2, 3, 5, 17}, {.scale = 0.3f}));
  cases->push_back(SoftmaxCase("SoftmaxCausal", {2, 3, 5, 5}, {.scale = 0.5f, .causal = true}));
  cases->push_back(SoftmaxCase("SoftmaxCausalMoreKeys", {2, 3, 7}, {.causal = true}));
  cases->push_back(SoftmaxCase("SoftmaxCausalFewerKeys", {2, 5, 3}, {.causal = true}));
  cases->push_back(SoftmaxCase("SoftmaxPadded", {7, 2, 3, 4}, {}, true));
  cases->push_back(SoftmaxCase("SoftmaxCausalPadded", {7, 4, 4}, {.causal = true}, true));
  cases->push_back(LengthsCase("LengthsOfTokens", {17, 2, 3, 7}, 7));
  cases->push_back(LengthsCase("LengthsOfTheFirstTokens", {13, 2, 5}, 9));
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const std::string flags = std::string(a ? "T" : "N") + (b ? "T" : "N");
      cases->push_back(MatMulCase("MatMulPlain" + flags, {}, 5, 7, 3, {a, b}));
      cases->push_back(MatMulCase("MatMulBatch" + flags, {2, 3}, 17, 5, 16, {a, b}));
      cases->push_back(MatMulCase("MatMulOfOne" + flags, {3}, 1, 1, 1, {a, b}));
      cases->push_back(MatMulCase("MatMulScaled" + flags, {2}, 5, 7, 4, {a, b, 0.375f}));
    }
  }
  cases->push_back(MatMulCase("MatMulRow", {3}, 1, 13, 1, {}));
  cases->push_back(TransposeCase("Transpose", {3, 7}, {1, 0}));
  cases->push_back(TransposeCase("TransposeHeads", {2, 5, 3, 7}, {0, 2, 1, 3}));
  cases->push_back(TransposeCase("TransposeCycle", {2, 3, 5, 1, 7}, {4, 0, 3, 1, 2}));
  cases->push_back(TransposeCase("TransposeNothing", {3, 1, 2}, {0, 1, 2}));
  cases->push_back(TransposeCase("TransposeOneAxis", {5}, {0}));
  cases->push_back(RowBiasCase("BiasOfRows", {2, 3, 17}, {17}));
  cases->push_back(RowBiasCase("BiasOfRowsPacks", {2, 3, 24}, {24}));
  cases->push_back(RowBiasCase("BiasOfPositions", {5, 3, 7}, {3, 7}));
  cases->push_back(RowBiasCase("BiasOfAll", {3, 1}, {3, 1}));
  cases->push_back(EmbeddingCase("Embedding", {2, 7}, kIndexLimit, 3));
  cases->push_back(EmbeddingCase("EmbeddingVector", {2, 7}, kIndexLimit, 24));
  cases->push_back(EmbeddingCase("EmbeddingOfOne", {1}, kIndexLimit, 1));
  cases->push_back(EmbeddingCase("EmbeddingRowsWithoutPlaces", {3, 1, 2}, 11, 17));
  cases->push_back(EmbeddingBagCase("EmbeddingBag", {3, 7}, kIndexLimit, 5));
  cases->push_back(EmbeddingBagCase("EmbeddingBagOfOne", {1, 1}, kIndexLimit, 1));
  cases->push_back(EmbeddingBagCase("EmbeddingBagRowsWithoutEntries", {2, 3}, 13, 1));
  cases->push_back(AttentionCase("Attention", {2, 3, 5, 4}, 7, false, false));
  cases->push_back(AttentionCase("AttentionCausal", {2, 2, 17, 8}, 17, true, false));
  // More blocks than one of the GPU engine, which leaves out those above the diagonal.
  cases->push_back(AttentionCase("AttentionCausalLong", {2, 2, 768, 2}, 768, true, false));
  cases->push_back(AttentionOfAttentionCase());
  cases->push_back(AttentionCase("AttentionCausalPadded", {7, 2, 4, 3}, 4, true, true));
  cases->push_back(AttentionCase("AttentionOfOne", {1, 1, 1, 1}, 1, false, false));
  cases->push_back(HeadsCase("AttentionHeads", {2, 5, 3, 16}, 7, false, false));
  cases->push_back(HeadsCase("AttentionHeadsOfABlock", {2, 3, 2, 8}, 128, false, false));
  cases->push_back(HeadsCase("AttentionHeadsCausal", {2, 67, 2, 8}, 67, true, false));
  cases->push_back(BatchedHeadsCase("AttentionHeadsBatched", {67, 6, 16}, true));
  cases->push_back(HeadsCase("AttentionHeadsPadded", {7, 5, 2, 8}, 6, false, true));
  cases->push_back(HeadsCase("AttentionHeadsCausalPadded", {7, 6, 2, 24}, 6, true, true));
  constexpr auto kLstm = Recurrent::Kind::kLstm, kGru = Recurrent::Kind::kGru;
  cases->push_back(RecurrentCase("Lstm", kLstm, {2, 5, 3}, 4));
  cases->push_back(RecurrentCase("LstmOneStep", kLstm, {3, 1, 2}, 1));
  cases->push_back(RecurrentCase("LstmPrimes", kLstm, {3, 7, 13}, 17, false));
  cases->push_back(RecurrentCase("Gru", kGru, {2, 5, 3}, 4));
  cases->push_back(RecurrentCase("GruOneStep", kGru, {3, 1, 2}, 1));
  cases->push_back(RecurrentCase("TanhCell", Recurrent::Kind::kTanh, {2, 5, 3}, 4));
  cases->push_back(RecurrentCase("ReluCell", Recurrent::Kind::kRelu, {3, 7, 13}, 17));
  cases->push_back(RecurrentCase("GruPrimes", kGru, {3, 7, 13}, 17, false));
  cases->push_back(
      SmoothedCase("SoftmaxCrossEntropySmoothed", {7, 10}, {7}, {.label_smoothing = 0.1f}));
  cases->push_back(SmoothedCase("SoftmaxCrossEntropyIgnored", {7, 3}, {7}, {.ignored = 2}));
  cases->push_back(SmoothedCase("SoftmaxCrossEntropyOfTokens", {6, 5, 17}, {6, 5},
                                {.label_smoothing = 0.3f, .ignored = 4}));
  cases->push_back(SmoothedCase("SoftmaxCrossEntropySmoothedPixels", {2, 5, 3, 7}, {2, 3, 7},
                                {.label_smoothing = 0.1f}));
  using Kind = ElementLoss::Kind;
  cases->push_back(ElementLossCase("SquaredError", {7, 10}, {7}, Kind::kSquaredError));
  cases->push_back(ElementLossCase("SquaredErrorOfOne", {1, 1}, {1}, Kind::kSquaredError));
  cases->push_back(ElementLossCase("SmoothL1", {3, 5, 17}, {3, 5}, Kind::kSmoothL1));
  cases->push_back(ElementLossCase("SmoothL1OfPixels", {2, 3, 5, 7}, {2, 5, 7}, Kind::kSmoothL1));
  cases->push_back(
      ElementLossCase("SigmoidCrossEntropy", {2, 3, 5}, {2, 3}, Kind::kSigmoidCrossEntropy));
  cases->push_back(ElementLossCase("SigmoidCrossEntropyOfPixels", {2, 3, 5, 7}, {2, 5, 7},
                                   Kind::kSigmoidCrossEntropy));
  cases->push_back(ElementLossCase("PoissonOfClasses", {3, 5, 17}, {3, 5}, Kind::kPoisson));
  cases->push_back(TargetLossCase("SquaredErrorOfTargets", {7, 3}, Kind::kSquaredError));
  cases->push_back(TargetLossCase("SquaredErrorOfOneTarget", {1, 1}, Kind::kSquaredError));
  cases->push_back(TargetLossCase("SmoothL1OfTargets", {13, 1}, Kind::kSmoothL1));
  cases->push_back(TargetLossCase("SigmoidOfLabels", {5, 11}, Kind::kSigmoidCrossEntropy));
  cases->push_back(TargetLossCase("PoissonOfCounts", {17, 2}, Kind::kPoisson));
}

}  // namespace psgd::testing
