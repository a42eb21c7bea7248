#include "engine/cudnn/fused_attention.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/cudnn/move.h"

namespace psgd::cudnn {
namespace {

using Pass = AttentionProblem::Pass;

// Backward passes of older versions read outside of their memory in a recorded step, if the number
// of keys is no multiple of 128 (release notes of cuDNN frontend 1.16). So older versions get
// neither pass.
constexpr size_t kOldestVersion = 91501;
constexpr int64_t kBlock = 128;  // of keys, and of queries

// As FusedAttention::Plan; the reasons that are known before cuDNN is asked.
absl::Status CheckSupported(const Device& device, const AttentionProblem& problem) {
  if (problem.type == Type::kFloat) {
    return absl::UnimplementedError("cuDNN has attention in bf16 and fp16 only");
  }
  if (cudnnGetVersion() < kOldestVersion) {
    return absl::UnimplementedError("this cuDNN is older than 9.15.1");
  }
  if (problem.pass == Pass::kForward) return absl::OkStatus();
  if (problem.keys[2] == 1) {  // release notes of 9.18
    return absl::UnimplementedError("cuDNN has no gradients of one key");
  }
  // From capability 10.0 on, cuDNN frontend sets KERNEL_CFG and STAGES of an engine, so that bits
  // repeat. psgd has not tried this.
  if (device.capability() >= 100) {
    return absl::UnimplementedError("cuDNN's gradients may not repeat to the bit on this device");
  }
  return absl::OkStatus();
}

// Gradients without a mask may be NaN: in some rows if the last block of keys is not full, in all
// rows if there is one query (issues 628 and 1072 of cuDNN frontend). A mask of lengths prevents
// this, also where all lengths are full (issues 160 and 1072).
bool NeedsLengths(const AttentionProblem& problem) {
  const bool full_blocks = problem.keys[2] % kBlock == 0 && problem.queries[2] % kBlock == 0;
  return problem.pass == Pass::kBackward && !problem.causal && !full_blocks;
}

Shape RowMajor(const Shape& shape) { return cudnn::StridesOf(shape, Layout::kPlain); }
Shape WithLastAxesExchanged(Shape shape) {
  std::swap(shape[2], shape[3]);
  return shape;
}

// The ids of tensors: first of buffers, then of numbers, then of what stays within the kernel.
constexpr int64_t kFirstBuffer = 1, kFirstNumber = kFirstBuffer + kAttentionBuffers;
constexpr int64_t kFirstInner = 1000;

// Builds the operations that cuDNN knows as attention. cuDNN recognises attention by their order
// and types: both matter.
class AttentionGraph {
 public:
  explicit AttentionGraph(const AttentionProblem& problem)
      : problem_(problem),
        type_(CudnnType(problem.type)),
        scores_(problem.queries),
        rows_(problem.queries),
        result_(problem.queries) {
    scores_[3] = problem.keys[2];
    rows_[3] = 1;
    result_[3] = problem.values[3];
  }

  void AddForward() {
    const Value scores = AddCausalMask(AddPaddingMask(AddScores()));
    const Value most = AddReduction(CUDNN_REDUCE_TENSOR_MAX, scores, Inner(rows_));
    Value e = AddPointwise(CUDNN_POINTWISE_SUB, {scores, most}, Inner(scores_));
    e = AddPointwise(CUDNN_POINTWISE_EXP, {e}, Inner(scores_));
    const Value sum = AddReduction(CUDNN_REDUCE_TENSOR_ADD, e, Inner(rows_));
    const Value log = AddPointwise(CUDNN_POINTWISE_LOG, {sum}, Inner(rows_));
    AddPointwise(CUDNN_POINTWISE_ADD, {most, log}, OfQueries(kLogSums));
    const Value weights = AddPointwise(CUDNN_POINTWISE_DIV, {e, sum}, Inner(scores_, type_));
    AddProduct(weights, Operand(kValues), Operand(kResult),
               {.m = QueryLengths(), .k = KeyLengths()});
  }

  // The mask of lengths comes before the subtraction of the log sums, the causal mask after it:
  // cuDNN expects this order. With P = exp(scores - log sums) and r = the sum over E of dY Y, for
  // each query:
  //   dV = P^T dY    dS = scale P * (dY V^T - r), by element    dQ = dS K    dK = dS^T Q
  void AddBackward() {
    const Value of_result = Operand(kOfResult);
    Value r =
        AddPointwise(CUDNN_POINTWISE_MUL, {of_result, Operand(kResult)}, Inner(ShapeOf(kResult)));
    r = AddReduction(CUDNN_REDUCE_TENSOR_ADD, r, Inner(rows_));
    // A factor for dropout, which cuDNN expects here.
    r = AddPointwise(CUDNN_POINTWISE_MUL, {r, Number(1)}, OfQueries(kResultSums));

    Value p = AddPaddingMask(AddScores());
    p = AddPointwise(CUDNN_POINTWISE_SUB, {p, OfQueries(kLogSums)}, Inner(scores_));
    p = AddPointwise(CUDNN_POINTWISE_EXP, {AddCausalMask(p)}, Inner(scores_));
    AddProduct(AddTransposed(p), of_result, Operand(kOfValues),
               {.m = KeyLengths(), .k = QueryLengths()});

    Value s = AddProduct(of_result, OperandTransposed(kValues), Inner(scores_),
                         {.m = QueryLengths(), .n = KeyLengths()});
    s = AddPointwise(CUDNN_POINTWISE_SUB, {s, r}, Inner(scores_));
    s = AddPointwise(CUDNN_POINTWISE_MUL, {s, p}, Inner(scores_));
    s = AddPointwise(CUDNN_POINTWISE_MUL, {s, Number(problem_.scale)}, Inner(scores_, type_));
    AddProduct(AddTransposed(s), Operand(kQueries), Operand(kOfKeys),
               {.m = KeyLengths(), .k = QueryLengths()});

    // Engines repeat the bits of dQ if the product writes it at once. Then dS is in the workspace.
    // If blocks of keys added to an fp32 dQ, their order would change.
    const Value k =
        AddReshape(OperandTransposed(kKeys), Inner(ShapeOf(kKeys), StridesOf(kKeys), type_));
    AddProduct(s, k, Operand(kOfQueries), {.m = QueryLengths(), .k = KeyLengths()});
  }

  absl::StatusOr<GraphDescriptor> Finalize(const Device& device) {
    PSGD_RETURN_IF_ERROR(status_);
    return MakeOperationGraph(device, operations_);
  }
  // The ids of all that is outside of the kernel: of buffers, which follow their places in
  // AttentionMemory, and of numbers.
  std::vector<int64_t> ids() const {
    std::vector<int64_t> all = buffers_;
    for (size_t i = 0; i < numbers_.size(); ++i)
      all.push_back(kFirstNumber + static_cast<int64_t>(i));
    return all;
  }
  const std::vector<float>& numbers() const { return numbers_; }

 private:
  using Value = const GraphDescriptor*;

  GraphDescriptor& New(cudnnBackendDescriptorType_t type) {
    return descriptors_.emplace_back(type);
  }
  Value Finalized(GraphDescriptor& descriptor) {
    status_.Update(descriptor.Finalize());
    return &descriptor;
  }
  void AddOperation(GraphDescriptor& operation) { operations_.push_back(Finalized(operation)); }

  GraphDescriptor& NewTensor(int64_t id, cudnnDataType_t type, const Shape& shape,
                             const Shape& strides) {
    return New(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
        .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
        .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16})
        .SetInts(CUDNN_ATTR_TENSOR_DIMENSIONS, shape)
        .SetInts(CUDNN_ATTR_TENSOR_STRIDES, strides);
  }
  // A tensor in memory. A graph sees it in one way.
  Value Outer(int buffer, cudnnDataType_t type, const Shape& shape, const Shape& strides) {
    if (outer_[buffer] == nullptr) {
      buffers_.push_back(buffer + kFirstBuffer);
      outer_[buffer] = Finalized(NewTensor(buffer + kFirstBuffer, type, shape, strides));
    }
    return outer_[buffer];
  }
  // A tensor that stays within the kernel.
  Value Inner(const Shape& shape, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return Inner(shape, RowMajor(shape), type);
  }
  Value Inner(const Shape& shape, const Shape& strides, cudnnDataType_t type) {
    return Finalized(NewTensor(next_inner_++, type, shape, strides)
                         .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true));
  }
  Value Number(float number) {
    const int64_t id = kFirstNumber + static_cast<int64_t>(numbers_.size());
    numbers_.push_back(number);
    return Finalized(NewTensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1})
                         .Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true));
  }

  const Shape& ShapeOf(AttentionTensor name) const {
    switch (name) {
      case kKeys:
      case kOfKeys:
        return problem_.keys;
      case kValues:
      case kOfValues:
        return problem_.values;
      case kResult:
      case kOfResult:
        return result_;
      default:
        return problem_.queries;
    }
  }
  Shape StridesOf(AttentionTensor name) const {
    const Shape& shape = ShapeOf(name);
    if (!problem_.places_first[name]) return RowMajor(shape);
    return {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
  }
  Value Operand(AttentionTensor name) { return Outer(name, type_, ShapeOf(name), StridesOf(name)); }
  Value OperandTransposed(AttentionTensor name) {
    return Outer(name, type_, WithLastAxesExchanged(ShapeOf(name)),
                 WithLastAxesExchanged(StridesOf(name)));
  }
  // One number for each query.
  Value OfQueries(int buffer) { return Outer(buffer, CUDNN_DATA_FLOAT, rows_, RowMajor(rows_)); }
  // The lengths of samples. Null: there are none.
  Value QueryLengths() { return LengthsIn(kQueryLengths); }
  Value KeyLengths() { return LengthsIn(kKeyLengths); }
  Value LengthsIn(int buffer) {
    if (!problem_.lengths) return nullptr;
    return Outer(buffer, CUDNN_DATA_INT32, {problem_.queries[0], 1, 1, 1}, {1, 1, 1, 1});
  }

  // How much of the axes of a product of M K by K N each sample has. Null: all.
  struct Axes {
    Value m = nullptr, n = nullptr, k = nullptr;
  };
  Value AddProduct(Value a, Value b, Value to, const Axes& axes) {
    GraphDescriptor& product =
        New(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
            .Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    GraphDescriptor& operation =
        New(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
            .SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, *Finalized(product))
            .SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a)
            .SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b)
            .SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *to);
    for (const auto& [name, lengths] :
         {std::pair(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, axes.m),
          std::pair(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, axes.n),
          std::pair(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, axes.k)}) {
      if (lengths != nullptr) operation.SetDescriptor(name, *lengths);
    }
    AddOperation(operation);
    return to;
  }

  struct Arguments {
    Value x, b = nullptr, t = nullptr;
  };
  Value AddPointwise(cudnnPointwiseMode_t mode, const Arguments& arguments, Value to,
                     cudnnDataType_t type = CUDNN_DATA_FLOAT, int64_t axis = -1) {
    GraphDescriptor& pointwise =
        New(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
            .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
            .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type);
    if (axis >= 0) pointwise.Set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
    GraphDescriptor& operation =
        New(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
            .SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *Finalized(pointwise))
            .SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *arguments.x)
            .SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *to);
    if (arguments.b != nullptr) {
      operation.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *arguments.b);
    }
    if (arguments.t != nullptr) {
      operation.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *arguments.t);
    }
    AddOperation(operation);
    return to;
  }

  Value AddReduction(cudnnReduceTensorOp_t by, Value x, Value to) {
    GraphDescriptor& reduction =
        New(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
            .Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, by)
            .Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    AddOperation(New(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
                     .SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, *Finalized(reduction))
                     .SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x)
                     .SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *to));
    return to;
  }

  // The same elements with other strides.
  Value AddReshape(Value x, Value to) {
    AddOperation(New(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
                     .SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x)
                     .SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *to));
    return to;
  }
  // Keys by queries, of a matrix of queries by keys, as a factor of a product.
  Value AddTransposed(Value matrix) {
    return AddReshape(matrix, Inner(WithLastAxesExchanged(scores_),
                                    WithLastAxesExchanged(RowMajor(scores_)), type_));
  }

  // The scaled products of queries and keys.
  Value AddScores() {
    const Value s = AddProduct(Operand(kQueries), OperandTransposed(kKeys), Inner(scores_),
                               {.m = QueryLengths(), .n = KeyLengths()});
    return AddPointwise(CUDNN_POINTWISE_MUL, {s, Number(problem_.scale)}, Inner(scores_));
  }
  // The places of a matrix along an axis, of queries or of keys.
  Value AddPlaces(Value matrix, int64_t axis, cudnnDataType_t computed_in) {
    return AddPointwise(CUDNN_POINTWISE_GEN_INDEX, {matrix}, Inner(scores_, CUDNN_DATA_INT32),
                        computed_in, axis);
  }
  Value AddCondition(cudnnPointwiseMode_t mode, Value x, Value b) {
    return AddPointwise(mode, {x, b}, Inner(scores_, CUDNN_DATA_BOOLEAN), CUDNN_DATA_BOOLEAN);
  }
  // Minus infinity where a place is not open.
  Value AddMask(Value scores, Value open) {
    const Value closed = Number(-std::numeric_limits<float>::infinity());
    return AddPointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, closed, open}, Inner(scores_));
  }
  // With `lengths`: masks what lies behind them.
  Value AddPaddingMask(Value scores) {
    if (!problem_.lengths) return scores;
    const Value query = AddPlaces(scores, 2, CUDNN_DATA_INT32);
    const Value key = AddPlaces(scores, 3, CUDNN_DATA_INT32);
    const Value has_query = AddCondition(CUDNN_POINTWISE_CMP_LT, query, QueryLengths());
    const Value has_key = AddCondition(CUDNN_POINTWISE_CMP_LT, key, KeyLengths());
    return AddMask(scores, AddCondition(CUDNN_POINTWISE_LOGICAL_AND, has_query, has_key));
  }
  // With `causal`: masks keys that are later than the query.
  Value AddCausalMask(Value scores) {
    if (!problem_.causal) return scores;
    const Value query = AddPlaces(scores, 2, CUDNN_DATA_FLOAT);
    const Value key = AddPlaces(scores, 3, CUDNN_DATA_FLOAT);
    return AddMask(scores, AddCondition(CUDNN_POINTWISE_CMP_GE, query, key));
  }

  const AttentionProblem& problem_;
  const cudnnDataType_t type_;
  Shape scores_, rows_, result_;             // N H T S, N H T 1, N H T E
  std::deque<GraphDescriptor> descriptors_;  // keeps their addresses
  std::vector<const GraphDescriptor*> operations_;
  std::vector<int64_t> buffers_;                     // their ids
  std::array<Value, kAttentionBuffers> outer_ = {};  // by buffer
  std::vector<float> numbers_;
  int64_t next_inner_ = kFirstInner;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<FusedAttention>> FusedAttention::Plan(const Device& device,
                                                                     const AttentionProblem& given,
                                                                     bool plan_only) {
  PSGD_RETURN_IF_ERROR(CheckSupported(device, given));
  device.Enter();
  AttentionProblem problem = given;
  problem.lengths = given.lengths || NeedsLengths(given);
  AttentionGraph graph(problem);
  if (problem.pass == Pass::kForward) {
    graph.AddForward();
  } else {
    graph.AddBackward();
  }
  PSGD_ASSIGN_OR_RETURN(const GraphDescriptor operations, graph.Finalize(device));
  PSGD_ASSIGN_OR_RETURN(const std::vector<GraphDescriptor> engines, FindEngines(operations));
  absl::Status why = absl::UnimplementedError(
      absl::StrCat("cuDNN has no engine on this device for heads of ", problem.queries[3]));
  for (const GraphDescriptor& engine : engines) {
    absl::StatusOr<EnginePlan> plan = EnginePlan::Make(device, engine, {.runs = !plan_only});
    if (!plan.ok()) {
      if (absl::IsUnimplemented(plan.status())) continue;
      // Products and softmax are there, too.
      const std::string text(plan.status().message());
      why =
          absl::UnimplementedError(absl::StrCat("cuDNN failed: ", text.substr(0, text.find('\n'))));
      continue;
    }
    auto made = std::make_shared<FusedAttention>();
    made->plan_ = *std::move(plan);
    made->reads_lengths_ = problem.lengths;
    made->ids_ = graph.ids();
    made->numbers_ = graph.numbers();
    return made;
  }
  return why;
}

absl::Status FusedAttention::Run(const Device& device, const AttentionMemory& memory,
                                 void* workspace) {
  std::vector<void*> data;
  for (size_t i = 0; i < ids_.size() - numbers_.size(); ++i)
    data.push_back(memory[ids_[i] - kFirstBuffer]);
  for (float& number : numbers_) data.push_back(&number);
  return plan_.Execute(device, ids_, data, workspace);
}

}  // namespace psgd::cudnn
