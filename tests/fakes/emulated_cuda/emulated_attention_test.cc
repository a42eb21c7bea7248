// Graphs of attention on the emulated cuDNN alone, against plain loops and their differences.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/philox.h"
#include "tests/fakes/emulated_cuda/cudnn_descriptor.h"
#include "tests/fakes/emulated_cuda/elements.h"
#include "tests/fakes/emulated_cuda/settings.h"

namespace psgd::emulated {
namespace {

using Sizes = std::vector<int64_t>;
using Raw = cudnnBackendDescriptor_t;

constexpr int64_t kBatch = 3, kHeads = 2, kQueries = 5, kKeys = 6;
constexpr int32_t kLengths[kBatch] = {6, 1, 4};  // keys of each sample

struct Case {
  bool causal = false;
  bool lengths = false;
  bool heads_inside = false;  // the order in memory is batch, place, head, width
  cudnnDataType_t type = CUDNN_DATA_HALF;
  int64_t width = 8, value_width = 16;  // of a head

  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
};

// Numbers of a tensor in device memory, at strides.
class Elements {
 public:
  Elements(Sizes sizes, Sizes strides, cudnnDataType_t type)
      : sizes_(std::move(sizes)), strides_(std::move(strides)), type_(type) {
    size_t last = 1;
    for (size_t axis = 0; axis < sizes_.size(); ++axis) {
      last += static_cast<size_t>((sizes_[axis] - 1) * strides_[axis]);
    }
    memory_.resize(last * sizeof(float) / sizeof(Unit) + 1);
    std::memset(at(), 0xFF, memory_.size() * sizeof(Unit));  // NaN
  }

  void* at() const { return memory_.data(); }
  const Sizes& sizes() const { return sizes_; }
  const Sizes& strides() const { return strides_; }
  cudnnDataType_t type() const { return type_; }
  int64_t IndexOf(int64_t n, int64_t head, int64_t place, int64_t column) const {
    return n * strides_[0] + head * strides_[1] + place * strides_[2] + column * strides_[3];
  }
  // All numbers in the order of the axes.
  std::vector<double> All() const {
    std::vector<double> all;
    Visit([&](int64_t i) { all.push_back(Load(at(), i, TypeOf(type_))); });
    return all;
  }
  void Set(const std::vector<double>& all) {
    size_t next = 0;
    Visit([&](int64_t i) { Store(static_cast<float>(all[next++]), at(), i, TypeOf(type_)); });
  }

 private:
  struct alignas(16) Unit {
    char of[16];
  };
  template <typename Visitor>
  void Visit(Visitor visit) const {
    for (int64_t n = 0; n < sizes_[0]; ++n)
      for (int64_t head = 0; head < sizes_[1]; ++head)
        for (int64_t place = 0; place < sizes_[2]; ++place)
          for (int64_t i = 0; i < sizes_[3]; ++i) visit(IndexOf(n, head, place, i));
  }

  Sizes sizes_, strides_;
  cudnnDataType_t type_;
  mutable std::vector<Unit> memory_;
};

Sizes InOrder(const Sizes& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

Elements Heads(const Case& of, int64_t places, int64_t width) {
  const Sizes sizes = {kBatch, kHeads, places, width};
  if (!of.heads_inside) return {sizes, InOrder(sizes), of.type};
  return {sizes, {places * kHeads * width, width, kHeads * width, 1}, of.type};
}

Elements RandomHeads(const Case& of, int64_t places, int64_t width, uint32_t seed) {
  Elements made = Heads(of, places, width);
  std::vector<double> all = made.All();
  RandomStream random({seed, 7}, 1);
  for (double& value : all) value = 2 * random.NextUnit() - 1;
  made.Set(all);
  return made;
}

// The formula, with numbers in the order of the axes.
std::vector<double> Attend(const Case& of, const std::vector<double>& q,
                           const std::vector<double>& k, const std::vector<double>& v) {
  std::vector<double> made;
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const double* const keys = &k[(n * kHeads + head) * kKeys * of.width];
      const double* const values = &v[(n * kHeads + head) * kKeys * of.value_width];
      for (int64_t row = 0; row < kQueries; ++row) {
        const double* const query = &q[((n * kHeads + head) * kQueries + row) * of.width];
        std::vector<double> out(of.value_width);
        double sum = 0;
        for (int64_t key = 0; key < kKeys; ++key) {
          if ((of.causal && key > row) || (of.lengths && key >= kLengths[n])) break;
          double score = 0;
          for (int64_t i = 0; i < of.width; ++i) score += query[i] * keys[key * of.width + i];
          const double weight = std::exp(score * of.scale());
          sum += weight;
          for (int64_t i = 0; i < of.value_width; ++i) {
            out[i] += weight * values[key * of.value_width + i];
          }
        }
        for (const double value : out) made.push_back(value / sum);
      }
    }
  }
  return made;
}

// Builds a graph, and runs it. Tensors get ids in the order in which they are made.
class Graph {
 public:
  ~Graph() {
    for (const Raw one : all_) cudnnBackendDestroyDescriptor(one);
  }

  Raw Make(cudnnBackendDescriptorType_t type) {
    EXPECT_EQ(cudnnBackendCreateDescriptor(type, &all_.emplace_back()), CUDNN_STATUS_SUCCESS);
    return all_.back();
  }
  template <typename T>
  void Set(Raw to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const std::vector<T>& values) {
    EXPECT_EQ(cudnnBackendSetAttribute(to, name, type, static_cast<int64_t>(values.size()),
                                       values.data()),
              CUDNN_STATUS_SUCCESS);
  }
  void SetOther(Raw to, cudnnBackendAttributeName_t name, Raw other) {
    if (other != nullptr) Set<Raw>(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {other});
  }
  Raw Final(Raw made) {
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
    return made;
  }

  // `memory`: null for a virtual tensor.
  Raw Tensor(const Sizes& sizes, const Sizes& strides, cudnnDataType_t type, const void* memory,
             bool by_value = false) {
    const Raw made = Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t id = 100 + static_cast<int64_t>(all_.size());
    const bool yes = true;
    Set<cudnnDataType_t>(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {type});
    Set<int64_t>(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes);
    Set<int64_t>(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
    Set<int64_t>(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {id});
    Set<int64_t>(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {16});
    if (memory == nullptr || by_value) {
      const auto name = by_value ? CUDNN_ATTR_TENSOR_IS_BY_VALUE : CUDNN_ATTR_TENSOR_IS_VIRTUAL;
      EXPECT_EQ(cudnnBackendSetAttribute(made, name, CUDNN_TYPE_BOOLEAN, 1, &yes),
                CUDNN_STATUS_SUCCESS);
    }
    if (memory != nullptr) memory_[id] = const_cast<void*>(memory);
    return Final(made);
  }
  Raw Of(const Elements& of) { return Tensor(of.sizes(), of.strides(), of.type(), of.at()); }
  // The last two axes are swapped.
  Raw TransposeOf(const Elements& of) {
    const Sizes &sizes = of.sizes(), &strides = of.strides();
    return Tensor({sizes[0], sizes[1], sizes[3], sizes[2]},
                  {strides[0], strides[1], strides[3], strides[2]}, of.type(), of.at());
  }
  Raw Virtual(const Sizes& sizes, cudnnDataType_t type) {
    return Tensor(sizes, InOrder(sizes), type, nullptr);
  }
  Raw Scalar(const float* value) {
    return Tensor({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, value, /*by_value=*/true);
  }

  // Of M K by K N. Null: all of the axis.
  struct Axes {
    Raw m = nullptr, n = nullptr, k = nullptr;
  };
  Raw Multiply(Raw a, Raw b, Raw c, const Axes& lengths) {
    const Raw how = Make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    Set<cudnnDataType_t>(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                         {CUDNN_DATA_FLOAT});
    const Raw made = Make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    SetOther(made, CUDNN_ATTR_OPERATION_MATMUL_DESC, Final(how));
    SetOther(made, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    SetOther(made, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    SetOther(made, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    SetOther(made, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, lengths.m);
    SetOther(made, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, lengths.n);
    SetOther(made, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, lengths.k);
    operations_.push_back(Final(made));
    return c;
  }
  Raw Map(cudnnPointwiseMode_t mode, Raw x, Raw b, Raw t, Raw y, int64_t axis = -1) {
    const Raw how = Make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    Set<cudnnPointwiseMode_t>(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, {mode});
    Set<cudnnDataType_t>(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                         {CUDNN_DATA_FLOAT});
    if (axis >= 0) Set<int64_t>(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, {axis});
    const Raw made = Make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    SetOther(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, Final(how));
    SetOther(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    SetOther(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    SetOther(made, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    SetOther(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    operations_.push_back(Final(made));
    return y;
  }
  Raw Reduce(cudnnReduceTensorOp_t reducer, Raw x, Raw y) {
    const Raw how = Make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    Set<cudnnReduceTensorOp_t>(how, CUDNN_ATTR_REDUCTION_OPERATOR,
                               CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, {reducer});
    Set<cudnnDataType_t>(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                         {CUDNN_DATA_FLOAT});
    const Raw made = Make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    SetOther(made, CUDNN_ATTR_OPERATION_REDUCTION_DESC, Final(how));
    SetOther(made, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    SetOther(made, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    operations_.push_back(Final(made));
    return y;
  }
  Raw Reshape(Raw x, Raw y) {
    const Raw made = Make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    SetOther(made, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    SetOther(made, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    operations_.push_back(Final(made));
    return y;
  }

  // Makes a plan with the first engine. NOT_SUPPORTED if there is none.
  cudnnStatus_t Plan() {
    const Raw graph = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    Set<Raw>(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_);
    const Raw heuristic = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    SetOther(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, Final(graph));
    Set<cudnnBackendHeurMode_t>(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                                {CUDNN_HEUR_MODE_FALLBACK});
    Final(heuristic);
    int64_t count = 0;
    Raw config = Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    const cudnnStatus_t status =
        cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &config);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    if (count == 0) return CUDNN_STATUS_NOT_SUPPORTED;
    plan_ = Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    SetOther(plan_, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return cudnnBackendFinalize(plan_);
  }
  std::map<int64_t, void*>& memory() { return memory_; }
  cudnnStatus_t Execute(cudnnHandle_t handle, void* workspace = nullptr) {
    const Raw pack = Make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    std::vector<int64_t> ids;
    std::vector<void*> pointers;
    for (const auto& [id, at] : memory_) {
      ids.push_back(id);
      pointers.push_back(at);
    }
    Set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
    Set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
    Set<void*>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace});
    return cudnnBackendExecute(handle, plan_, Final(pack));
  }

 private:
  std::vector<Raw> all_, operations_;
  std::map<int64_t, void*> memory_;
  Raw plan_ = nullptr;
};

// All tensors of an attention.
struct Attention {
  explicit Attention(const Case& given)
      : of(given),
        q(RandomHeads(of, kQueries, of.width, 1)),
        k(RandomHeads(of, kKeys, of.width, 2)),
        v(RandomHeads(of, kKeys, of.value_width, 3)),
        o(Heads(of, kQueries, of.value_width)),
        d_o(RandomHeads(of, kQueries, of.value_width, 4)),
        d_q(Heads(of, kQueries, of.width)),
        d_k(Heads(of, kKeys, of.width)),
        d_v(Heads(of, kKeys, of.value_width)),
        stats(rows, InOrder(rows), CUDNN_DATA_FLOAT),
        sums(rows, InOrder(rows), CUDNN_DATA_FLOAT),
        of_queries({kBatch, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_INT32),
        of_keys({kBatch, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_INT32),
        scale(static_cast<float>(of.scale())) {
    of_queries.Set(std::vector<double>(kBatch, kQueries));
    of_keys.Set({std::begin(kLengths), std::end(kLengths)});
  }

  // The lengths, which a graph sees as one tensor.
  struct Lengths {
    Raw queries = nullptr, keys = nullptr;
  };
  Lengths LengthsIn(Graph* graph) const {
    if (!of.lengths) return {};
    return {graph->Of(of_queries), graph->Of(of_keys)};
  }
  Raw Scores(Graph* graph, Raw query, Raw key, const Lengths& lengths) {
    const Raw scores = graph->Multiply(query, key, graph->Virtual(square, CUDNN_DATA_FLOAT),
                                       {.m = lengths.queries, .n = lengths.keys});
    return graph->Map(CUDNN_POINTWISE_MUL, scores, graph->Scalar(&scale), nullptr,
                      graph->Virtual(square, CUDNN_DATA_FLOAT));
  }
  Raw Index(Graph* graph, Raw scores, int64_t axis) {
    return graph->Map(CUDNN_POINTWISE_GEN_INDEX, scores, nullptr, nullptr,
                      graph->Virtual(square, CUDNN_DATA_INT32), axis);
  }
  Raw Compare(Graph* graph, cudnnPointwiseMode_t mode, Raw x, Raw b) {
    return graph->Map(mode, x, b, nullptr, graph->Virtual(square, CUDNN_DATA_BOOLEAN));
  }
  Raw Select(Graph* graph, Raw scores, Raw open) {
    return graph->Map(CUDNN_POINTWISE_BINARY_SELECT, scores, graph->Scalar(&closed), open,
                      graph->Virtual(square, CUDNN_DATA_FLOAT));
  }
  Raw Mask(Graph* graph, Raw scores) {
    if (!of.causal) return scores;
    const Raw query = Index(graph, scores, 2), key = Index(graph, scores, 3);
    return Select(graph, scores, Compare(graph, CUDNN_POINTWISE_CMP_GE, query, key));
  }
  Raw Padding(Graph* graph, Raw scores, const Lengths& lengths) {
    if (!of.lengths) return scores;
    const Raw query = Index(graph, scores, 2), key = Index(graph, scores, 3);
    const Raw has_query = Compare(graph, CUDNN_POINTWISE_CMP_LT, query, lengths.queries);
    const Raw has_key = Compare(graph, CUDNN_POINTWISE_CMP_LT, key, lengths.keys);
    return Select(graph, scores, Compare(graph, CUDNN_POINTWISE_LOGICAL_AND, has_query, has_key));
  }
  void BuildForward(Graph* graph) {
    const auto of_rows = [&] { return graph->Virtual(rows, CUDNN_DATA_FLOAT); };
    const auto of_square = [&] { return graph->Virtual(square, CUDNN_DATA_FLOAT); };
    const Lengths lengths = LengthsIn(graph);
    Raw scores = Scores(graph, graph->Of(q), graph->TransposeOf(k), lengths);
    scores = Mask(graph, Padding(graph, scores, lengths));
    const Raw most = graph->Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, of_rows());
    Raw power = graph->Map(CUDNN_POINTWISE_SUB, scores, most, nullptr, of_square());
    power = graph->Map(CUDNN_POINTWISE_EXP, power, nullptr, nullptr, of_square());
    const Raw sum = graph->Reduce(CUDNN_REDUCE_TENSOR_ADD, power, of_rows());
    const Raw log = graph->Map(CUDNN_POINTWISE_LOG, sum, nullptr, nullptr, of_rows());
    graph->Map(CUDNN_POINTWISE_ADD, most, log, nullptr, graph->Of(stats));
    const Raw weights =
        graph->Map(CUDNN_POINTWISE_DIV, power, sum, nullptr, graph->Virtual(square, of.type));
    graph->Multiply(weights, graph->Of(v), graph->Of(o), {.m = lengths.queries, .k = lengths.keys});
  }
  void BuildBackward(Graph* graph) {
    const Sizes turned = {kBatch, kHeads, kKeys, kQueries};
    const auto of_square = [&] { return graph->Virtual(square, CUDNN_DATA_FLOAT); };
    const auto turn = [&](Raw from) {
      return graph->Reshape(
          from, graph->Tensor(turned, {kHeads * kKeys * kQueries, kKeys * kQueries, 1, kKeys},
                              of.type, nullptr));
    };
    const Lengths lengths = LengthsIn(graph);
    const Graph::Axes of_scores = {.m = lengths.queries, .n = lengths.keys};
    const Graph::Axes to_keys = {.m = lengths.keys, .k = lengths.queries};
    const Raw of_d_o = graph->Of(d_o), of_q = graph->Of(q), of_k = graph->TransposeOf(k);
    Raw sum = graph->Map(CUDNN_POINTWISE_MUL, of_d_o, graph->Of(o), nullptr,
                         graph->Virtual(o.sizes(), CUDNN_DATA_FLOAT));
    sum = graph->Reduce(CUDNN_REDUCE_TENSOR_ADD, sum, graph->Virtual(rows, CUDNN_DATA_FLOAT));
    sum = graph->Map(CUDNN_POINTWISE_MUL, sum, graph->Scalar(&one), nullptr, graph->Of(sums));
    Raw weights = Padding(graph, Scores(graph, of_q, of_k, lengths), lengths);
    if (masks_first) weights = Mask(graph, weights);
    weights = graph->Map(CUDNN_POINTWISE_SUB, weights, graph->Of(stats), nullptr, of_square());
    if (!masks_first) weights = Mask(graph, weights);
    weights = graph->Map(CUDNN_POINTWISE_EXP, weights, nullptr, nullptr, of_square());
    graph->Multiply(turn(weights), of_d_o, graph->Of(d_v), to_keys);
    Raw slope = graph->Multiply(of_d_o, graph->TransposeOf(v), of_square(), of_scores);
    slope = graph->Map(CUDNN_POINTWISE_SUB, slope, sum, nullptr, of_square());
    slope = graph->Map(CUDNN_POINTWISE_MUL, slope, weights, nullptr, of_square());
    slope = graph->Map(CUDNN_POINTWISE_MUL, slope, graph->Scalar(&scale), nullptr,
                       graph->Virtual(square, of.type));
    graph->Multiply(turn(slope), of_q, graph->Of(d_k), to_keys);
    const Sizes strides = copies_keys ? InOrder(k.sizes()) : k.strides();
    const Raw plain = graph->Reshape(of_k, graph->Tensor(k.sizes(), strides, of.type, nullptr));
    graph->Multiply(slope, plain, graph->Of(d_q), {.m = lengths.queries, .k = lengths.keys});
  }

  const Case of;
  const Sizes rows = {kBatch, kHeads, kQueries, 1}, square = {kBatch, kHeads, kQueries, kKeys};
  Elements q, k, v, o, d_o, d_q, d_k, d_v, stats, sums, of_queries, of_keys;
  float scale, closed = -std::numeric_limits<float>::infinity(), one = 1;
  bool masks_first = false, copies_keys = false;  // in backward, where cuDNN refuses both
};

class EmulatedAttentionTest : public ::testing::Test {
 protected:
  EmulatedAttentionTest() {
    GetSettings().engines = {Engine{}};
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudnnCreate(&handle_);
    cudnnSetStream(handle_, stream_);
  }
  ~EmulatedAttentionTest() override {
    cudnnDestroy(handle_);
    cudaStreamDestroy(stream_);
    GetSettings() = before_;
  }

  void Run(Graph* graph) {
    ASSERT_EQ(graph->Plan(), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(graph->Execute(handle_), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  static void ExpectNear(const std::vector<double>& got, const std::vector<double>& expected,
                         double apart, const char* what) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], apart) << what << " " << i;
    }
  }
  static std::vector<Case> Cases() {
    std::vector<Case> cases;
    for (const bool heads_inside : {false, true}) {
      for (const cudnnDataType_t type : {CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16}) {
        for (const bool causal : {false, true}) {
          for (const bool lengths : {false, true}) {
            cases.push_back({causal, lengths, heads_inside, type});
          }
        }
      }
    }
    return cases;
  }

  const Settings before_ = GetSettings();
  cudaStream_t stream_;
  cudnnHandle_t handle_;
};

// Rounding to 11 bits of half, or 8 of bf16, of a few numbers around 1.
double Apart(const Case& of) { return of.type == CUDNN_DATA_HALF ? 2e-3 : 1.6e-2; }

TEST_F(EmulatedAttentionTest, ForwardGivesTheFormula) {
  for (const Case& of : Cases()) {
    SCOPED_TRACE(::testing::Message() << of.causal << of.lengths << of.heads_inside << of.type);
    Attention attention(of);
    const std::vector<double> expected =
        Attend(of, attention.q.All(), attention.k.All(), attention.v.All());
    Graph graph;
    attention.BuildForward(&graph);
    const uint64_t before = GetSettings().attentions;
    Run(&graph);
    EXPECT_EQ(GetSettings().attentions, before + 1);
    ExpectNear(attention.o.All(), expected, Apart(of), "output");
  }
}

// The numbers of a gradient of keys. Those behind the lengths, which nothing promises, are zero.
std::vector<double> BeforePadding(const Elements& of_keys, const Case& of) {
  std::vector<double> all = of_keys.All();
  const int64_t width = of_keys.sizes()[3];
  for (size_t i = 0; of.lengths && i < all.size(); ++i) {
    const auto place = static_cast<int64_t>(i) / width % kKeys;
    if (place < kLengths[static_cast<int64_t>(i) / (width * kKeys * kHeads)]) continue;
    EXPECT_TRUE(std::isnan(all[i])) << i;
    all[i] = 0;
  }
  return all;
}

// Central differences of the sum of all outputs, each times its gradient.
TEST_F(EmulatedAttentionTest, BackwardGivesTheDifferencesOfTheFormula) {
  constexpr double kStep = 1e-4;
  for (const Case& of : Cases()) {
    SCOPED_TRACE(::testing::Message() << of.causal << of.lengths << of.heads_inside << of.type);
    Attention attention(of);
    std::vector<double> inputs[3] = {attention.q.All(), attention.k.All(), attention.v.All()};
    const std::vector<double> d_o = attention.d_o.All();
    const auto loss = [&] {
      const std::vector<double> o = Attend(of, inputs[0], inputs[1], inputs[2]);
      double sum = 0;
      for (size_t i = 0; i < o.size(); ++i) sum += o[i] * d_o[i];
      return sum;
    };
    std::vector<double> expected[3];
    for (int which = 0; which < 3; ++which) {
      for (double& value : inputs[which]) {
        const double kept = std::exchange(value, value + kStep);
        const double above = loss();
        value = kept - kStep;
        expected[which].push_back((above - loss()) / (2 * kStep));
        value = kept;
      }
    }
    Graph forward, backward;
    attention.BuildForward(&forward);
    attention.BuildBackward(&backward);
    Run(&forward);
    Run(&backward);
    ExpectNear(attention.d_q.All(), expected[0], Apart(of), "gradient of q");
    ExpectNear(BeforePadding(attention.d_k, of), expected[1], Apart(of), "gradient of k");
    ExpectNear(BeforePadding(attention.d_v, of), expected[2], 2 * Apart(of), "gradient of v");
  }
}

TEST_F(EmulatedAttentionTest, EachTensorRoundsToItsType) {
  GetSettings().engines = {Engine{.error = 0.5}};
  const Sizes sizes = {1, 1, 1, 4};
  Elements from(sizes, InOrder(sizes), CUDNN_DATA_FLOAT);
  from.Set({0, 1 + 0x1p-9, 1 + 0x1p-12, -2.75});
  const float one = 1;
  for (const auto& [type, expected] : std::map<cudnnDataType_t, std::vector<double>>{
           {CUDNN_DATA_FLOAT, {0, 1 + 0x1p-9, 1 + 0x1p-12, -2.75}},
           {CUDNN_DATA_HALF, {0, 1 + 0x1p-9, 1, -2.75}},
           {CUDNN_DATA_BFLOAT16, {0, 1, 1, -2.75}},
           {CUDNN_DATA_INT32, {0, 1, 1, -2}},
           {CUDNN_DATA_BOOLEAN, {0, 1, 1, 1}}}) {
    const Elements to(sizes, InOrder(sizes), CUDNN_DATA_FLOAT);
    Graph graph;
    const Raw rounded = graph.Map(CUDNN_POINTWISE_MUL, graph.Of(from), graph.Scalar(&one), nullptr,
                                  graph.Virtual(sizes, type));
    graph.Map(CUDNN_POINTWISE_MUL, rounded, graph.Scalar(&one), nullptr, graph.Of(to));
    Run(&graph);
    std::vector<double> wrong = expected;  // by the engine's error, once
    for (double& value : wrong) value *= 1.5;
    ExpectNear(to.All(), wrong, 1e-6, "value");
  }
}

TEST_F(EmulatedAttentionTest, AValueIsReadByTheCallAndNotByTheDevice) {
  Attention attention(Case{});
  const std::vector<double> expected =
      Attend(attention.of, attention.q.All(), attention.k.All(), attention.v.All());
  const float scale = std::exchange(attention.scale, 0);
  Graph graph;
  attention.BuildForward(&graph);
  ASSERT_EQ(graph.Plan(), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  attention.scale = scale;
  ASSERT_EQ(graph.Execute(handle_), CUDNN_STATUS_SUCCESS);
  attention.scale = 100;
  cudaGraph_t recorded;
  cudaGraphExec_t replayed;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &recorded), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replayed, recorded, 0), cudaSuccess);
  for (int replay = 0; replay < 2; ++replay) {
    attention.o.Set(std::vector<double>(expected.size(), 7));
    ASSERT_EQ(cudaGraphLaunch(replayed, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    ExpectNear(attention.o.All(), expected, Apart(attention.of), "output");
  }
  cudaGraphExecDestroy(replayed);
  cudaGraphDestroy(recorded);
}

TEST_F(EmulatedAttentionTest, WhatCudnnRefusesIsRefused) {
  const auto forward = [](const Case& of) {
    Attention attention(of);
    Graph graph;
    attention.BuildForward(&graph);
    return graph.Plan();
  };
  const auto backward = [](const Case& of, bool masks_first = false, bool copies_keys = false) {
    Attention attention(of);
    attention.masks_first = masks_first;
    attention.copies_keys = copies_keys;
    Graph graph;
    attention.BuildBackward(&graph);
    return graph.Plan();
  };
  for (const int capability : {75, 80, 90}) {
    GetSettings().capability = capability;
    for (const int64_t width : {8, 12, 128, 136, 256, 264}) {
      const bool runs = capability >= 80 && width % 8 == 0 && width <= 256;
      const bool runs_back = runs && (width <= 128 || capability >= 90);
      for (const Case& of : {Case{.width = width}, Case{.value_width = width}}) {
        EXPECT_EQ(forward(of), runs ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED);
        EXPECT_EQ(backward(of), runs_back ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED);
      }
    }
    EXPECT_EQ(forward({.type = CUDNN_DATA_FLOAT}), CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(backward({.type = CUDNN_DATA_FLOAT}), CUDNN_STATUS_NOT_SUPPORTED);
  }
  const Case causal = {.causal = true, .heads_inside = true};
  EXPECT_EQ(backward(causal), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(backward(causal, /*masks_first=*/true), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(backward(causal, false, /*copies_keys=*/true), CUDNN_STATUS_NOT_SUPPORTED);
  Attention one_length(Case{.lengths = true});
  one_length.of_keys = Elements({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_INT32);
  Graph graph;
  one_length.BuildForward(&graph);
  EXPECT_EQ(graph.Plan(), CUDNN_STATUS_NOT_SUPPORTED);
  GetSettings().engines = {Engine{.plans = false}};
  EXPECT_EQ(forward({}), CUDNN_STATUS_NOT_SUPPORTED);
}

// A length that is too large, or 0.
TEST_F(EmulatedAttentionTest, WrongLengthsMakeNaN) {
  Attention attention(Case{.lengths = true});
  attention.of_keys.Set({0, kKeys + 1, kKeys});
  Graph graph;
  attention.BuildForward(&graph);
  Run(&graph);
  const std::vector<double> o = attention.o.All();
  for (size_t i = 0; i < o.size(); ++i) EXPECT_EQ(std::isnan(o[i]), i < o.size() / kBatch * 2) << i;
}

TEST_F(EmulatedAttentionTest, AGraphThatMakesNoSenseIsRefused) {
  const Sizes sizes = {kBatch, kHeads, kQueries, 8}, narrow = {kBatch, kHeads, kQueries, 1};
  const Elements memory(sizes, InOrder(sizes), CUDNN_DATA_FLOAT);
  const auto plan = [&](auto build) {
    Graph graph;
    build(&graph);
    return graph.Plan();
  };
  EXPECT_EQ(plan([&](Graph* graph) {
              graph->Map(CUDNN_POINTWISE_EXP, graph->Of(memory), nullptr, nullptr,
                         graph->Virtual(sizes, CUDNN_DATA_FLOAT));
            }),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(plan([&](Graph* graph) {
              graph->Map(CUDNN_POINTWISE_TANH_FWD, graph->Of(memory), nullptr, nullptr,
                         graph->Virtual(sizes, CUDNN_DATA_FLOAT));
            }),
            CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(plan([&](Graph* graph) {
              graph->Reduce(CUDNN_REDUCE_TENSOR_MUL, graph->Of(memory),
                            graph->Virtual(narrow, CUDNN_DATA_FLOAT));
            }),
            CUDNN_STATUS_NOT_SUPPORTED);
  // A virtual tensor that nothing made.
  EXPECT_EQ(plan([&](Graph* graph) {
              graph->Map(CUDNN_POINTWISE_EXP, graph->Virtual(sizes, CUDNN_DATA_FLOAT), nullptr,
                         nullptr, graph->Of(memory));
            }),
            CUDNN_STATUS_BAD_PARAM);
  // An operand is missing, or wider than the result.
  EXPECT_EQ(plan([&](Graph* graph) {
              graph->Map(CUDNN_POINTWISE_ADD, graph->Of(memory), nullptr, nullptr,
                         graph->Virtual(sizes, CUDNN_DATA_FLOAT));
            }),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(plan([&](Graph* graph) {
              graph->Map(CUDNN_POINTWISE_EXP, graph->Of(memory), nullptr, nullptr,
                         graph->Virtual(narrow, CUDNN_DATA_FLOAT));
            }),
            CUDNN_STATUS_BAD_PARAM);
  // A reshape that is no transpose, because it keeps the strides.
  EXPECT_EQ(plan([&](Graph* graph) {
              graph->Reshape(graph->Of(memory),
                             graph->Virtual({kBatch, kHeads, 8, kQueries}, CUDNN_DATA_FLOAT));
            }),
            CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(EmulatedAttentionTest, MemoryMustBeThereAndAligned) {
  GetSettings().engines = {Engine{.workspace = 64}};
  Attention attention(Case{});
  Graph graph;
  attention.BuildForward(&graph);
  ASSERT_EQ(graph.Plan(), CUDNN_STATUS_SUCCESS);
  struct alignas(256) Workspace {
    unsigned char of[512] = {};
  };
  const auto workspace = std::make_unique<Workspace>();
  EXPECT_EQ(graph.Execute(handle_), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(graph.Execute(handle_, workspace->of + 16), CUDNN_STATUS_BAD_PARAM);
  const std::map<int64_t, void*> all = graph.memory();
  const float unaligned[2] = {attention.scale, attention.scale};
  for (const auto& [id, at] : all) {
    graph.memory().erase(id);
    EXPECT_EQ(graph.Execute(handle_, workspace->of), CUDNN_STATUS_BAD_PARAM) << id;
    graph.memory()[id] = static_cast<char*>(at) + 4;
    // A value lies in the host's memory, which has any address.
    const bool is_value = at == &attention.scale;
    if (is_value) graph.memory()[id] = const_cast<float*>(&unaligned[1]);
    EXPECT_EQ(graph.Execute(handle_, workspace->of),
              is_value ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM)
        << id;
    graph.memory() = all;
  }
  ASSERT_EQ(graph.Execute(handle_, workspace->of), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(workspace->of[63], 0xFF);
  EXPECT_EQ(workspace->of[64], 0);
}

}  // namespace
}  // namespace psgd::emulated
