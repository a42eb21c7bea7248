// Ops that only move elements.
#include "engine/ops/rules.h"
#include "tests/unit/engine/case_builder.h"

namespace psgd::testing {
namespace {

OpCase ConcatCase(const char* name, const Shape& x, int axis, const std::vector<int64_t>& lengths) {
  CaseBuilder b(name, 1e-6);
  std::vector<TensorId> parts;
  for (int64_t length : lengths) {
    Shape part = x;
    part[axis] = length;
    parts.push_back(b.Input(part));
  }
  return b.Finish(AddConcat(b.graph(), "concat", {axis}, parts));
}

OpCase SliceCase(const char* name, Shape x, const Slice& op, int64_t length) {
  return UnaryCase(name, std::move(x),
                   [=](Graph* g, TensorId in) { return AddSlice(g, "slice", op, length, in); });
}

OpCase PadCase(const char* name, Shape x, const Pad& op, const Shape& after) {
  return UnaryCase(name, std::move(x),
                   [=](Graph* g, TensorId in) { return AddPad(g, "pad", op, after, in); });
}

OpCase ConstantCase(const char* name, const Shape& shape) {
  CaseBuilder b(name, 1e-6);
  auto values = std::make_shared<std::vector<float>>();
  for (int64_t i = 0; i < ElementCount(shape); ++i)
    values->push_back(0.5f * static_cast<float>(i) - 3);
  const TensorId constant = b.Check(AddConstant(b.graph(), "constant", {values}, shape));
  return b.Finish(AddMul(b.graph(), "mul", b.Input(shape), constant));
}

// Branches in the layouts of convolutions, which fill their blocks of channels or do not.
OpCase BranchesCase(const char* name, int left, int right) {
  CaseBuilder b(name, 5e-6);
  Graph* g = b.graph();
  const TensorId x = b.Input({2, 3, 5, 7});
  std::vector<TensorId> parts;
  for (int channels : {left, right}) {
    const TensorId weight = b.Input({channels, 3, 3, 3});
    parts.push_back(b.Check(AddConv2d(g, "conv", {{3, 1, 1}}, x, weight, kNoTensor)));
  }
  parts.push_back(x);
  const TensorId all = b.Check(AddConcat(g, "concat", {}, parts));
  const TensorId end = b.Check(AddSlice(g, "slice", {1, left}, right, all));
  return b.Finish(AddConv2d(g, "conv3", {{1}}, end, b.Input({4, right, 1, 1}), kNoTensor));
}

OpCase AxisMapCase(const char* name, Shape x, int axis, const AxisMatrix& matrix) {
  return UnaryCase(name, std::move(x),
                   [=](Graph* g, TensorId in) { return AddAxisMap(g, "map", axis, matrix, in); });
}

// Each place is between two others, as in an image that grows.
AxisMatrix Between(int64_t columns) {
  AxisMatrix matrix = {.columns = columns};
  for (int64_t i = 0; i + 1 < columns; ++i) {
    matrix.Add(i, 0.25f);
    matrix.Add(i + 1, 0.75f);
    matrix.EndRow();
  }
  return matrix;
}

}  // namespace

void AddMovingCases(std::vector<OpCase>* cases) {
  cases->push_back(UnaryCase("Reshape", {2, 3, 5, 7}, [](Graph* g, TensorId x) {
    return AddReshape(g, "flatten", x, {2, 105});
  }));
  cases->push_back(ConstantCase("ConstantRows", {3, 5}));
  cases->push_back(ConstantCase("ConstantImages", {2, 16, 3, 3}));
  cases->push_back(ConcatCase("ConcatChannels", {2, 0, 3, 5}, 1, {3, 1, 7}));
  cases->push_back(ConcatCase("ConcatVectorChannels", {2, 0, 3, 5}, 1, {16, 32}));
  cases->push_back(ConcatCase("ConcatRows", {0, 7}, 0, {2, 3}));
  cases->push_back(ConcatCase("ConcatLastAxis", {3, 2, 0}, 2, {1, 5}));
  cases->push_back(ConcatCase("ConcatOfOne", {1, 0, 1, 1}, 1, {1}));
  cases->push_back(BranchesCase("ConcatFullBlocks", 16, 32));
  cases->push_back(BranchesCase("ConcatCutBlocks", 17, 5));
  cases->push_back(SliceCase("SliceChannels", {2, 7, 3, 5}, {1, 2}, 4));
  cases->push_back(SliceCase("SliceBatch", {5, 3, 2, 2}, {0, 1}, 3));
  cases->push_back(SliceCase("SliceWidth", {2, 3, 5, 7}, {3, 6}, 1));
  cases->push_back(SliceCase("SliceRows", {3, 17}, {1, 4}, 9));
  cases->push_back(SliceCase("SliceAll", {1, 1}, {1, 0}, 1));
  cases->push_back(PadCase("PadImages", {2, 3, 4, 5}, {{0, 0, 1, 2}, 0.5f}, {0, 0, 3, 0}));
  cases->push_back(PadCase("PadChannels", {2, 16, 3, 3}, {{0, 0, 0, 0}}, {0, 16, 0, 0}));
  cases->push_back(PadCase("PadAllAxes", {1, 1, 1, 1}, {{1, 2, 3, 4}, -2}, {4, 3, 2, 1}));
  cases->push_back(PadCase("PadRow", {5}, {{2}}, {3}));
  cases->push_back(AxisMapCase("TakeChannels", {2, 5, 3, 4}, 1, TakingRows({4, 0, 0, 2}, 5)));
  cases->push_back(AxisMapCase("TakeLast", {3, 7}, 1, TakingRows({6, 4, 2, 0}, 7)));
  cases->push_back(AxisMapCase("RepeatBatch", {1, 3, 2, 5}, 0, TakingRows({0, 0, 0}, 1)));
  cases->push_back(AxisMapCase("AddUpRows", {2, 17, 3}, 1, AddingRow(17, 1)));
  cases->push_back(AxisMapCase("MeanOfChannels", {2, 5, 3, 70}, 1, AddingRow(5, 0.2f)));
  cases->push_back(AxisMapCase("MeanOfLast", {3, 8}, 1, AddingRow(8, 0.125f)));
  cases->push_back(AxisMapCase("BetweenRows", {2, 3, 5, 7}, 2, Between(5)));
  cases->push_back(AxisMapCase("BetweenColumns", {2, 17, 4, 6}, 3, Between(6)));
  cases->push_back(AxisMapCase("AxisMapOfOne", {1}, 0, TakingRows({0}, 1)));
  cases->push_back(PadCase("PadNothing", {2, 3}, {{0, 0}}, {0, 0}));
}

}  // namespace psgd::testing
