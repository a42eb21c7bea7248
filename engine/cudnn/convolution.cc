#include "engine/cudnn/convolution.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cudnn/engine_choices.h"
#include "engine/graph/memory_plan.h"

namespace psgd::cudnn {
namespace {

using Pass = ConvolutionProblem::Pass;

constexpr int64_t kX = 1, kW = 2, kY = 3;  // ids of the tensors in a variant pack
constexpr int64_t kMostEngines = 8;        // engines to measure
constexpr size_t kMostWorkspace = 1ull << 30;
constexpr int kTimedRuns = 3;
// Replays of launches are timed, because the host takes longer for a launch than some engines.
constexpr float kTimedMilliseconds = 0.3f;
constexpr int kMostLaunches = 16;
// An engine must be faster by a twentieth to be chosen over one that cuDNN expects to be faster. So
// chance seldom chooses, and the same shapes get the same engines.
constexpr float kHysteresis = 0.95f;

absl::StatusOr<GraphDescriptor> MakeTensor(int64_t name, const ConvolutionProblem& problem,
                                           const Shape& shape) {
  GraphDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const int64_t all = shape[1] * shape[2] * shape[3];
  const Shape strides = problem.layout == Layout::kChannelsLast
                            ? Shape{all, 1, shape[3] * shape[1], shape[1]}
                            : Shape{all, shape[2] * shape[3], shape[3], 1};
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, name)
      .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CudnnType(problem.type))
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16})
      .SetInts(CUDNN_ATTR_TENSOR_DIMENSIONS, shape)
      .SetInts(CUDNN_ATTR_TENSOR_STRIDES, strides);
  PSGD_RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

absl::StatusOr<GraphDescriptor> MakeWindow(const Window& window) {
  const auto pair = [](const Extent& e) { return std::vector<int64_t>{e.height, e.width}; };
  GraphDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
      .SetInts(CUDNN_ATTR_CONVOLUTION_DILATIONS, pair(window.dilation))
      .SetInts(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, pair(window.stride))
      .SetInts(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pair(window.pad))
      .SetInts(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pair(window.pad));
  PSGD_RETURN_IF_ERROR(made.Finalize());
  return made;
}

struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
};

OperationNames NamesOf(Pass pass) {
  switch (pass) {
    case Pass::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Pass::kBackwardWeights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    case Pass::kForward:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

// A graph of one operation, with its descriptors.
struct OperationGraph {
  GraphDescriptor x, w, y, window, operation, graph;
};

absl::StatusOr<OperationGraph> MakeGraph(const Device& device, const ConvolutionProblem& problem) {
  OperationGraph made;
  PSGD_ASSIGN_OR_RETURN(made.x, MakeTensor(kX, problem, problem.x));
  PSGD_ASSIGN_OR_RETURN(made.w, MakeTensor(kW, problem, problem.w));
  PSGD_ASSIGN_OR_RETURN(made.y, MakeTensor(kY, problem, problem.y));
  PSGD_ASSIGN_OR_RETURN(made.window, MakeWindow(problem.window));
  const OperationNames names = NamesOf(problem.pass);
  made.operation = GraphDescriptor(names.type);
  made.operation.SetDescriptor(names.x, made.x)
      .SetDescriptor(names.w, made.w)
      .SetDescriptor(names.y, made.y)
      .SetDescriptor(names.window, made.window)
      .Set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f)
      .Set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
  PSGD_RETURN_IF_ERROR(made.operation.Finalize());
  PSGD_ASSIGN_OR_RETURN(made.graph, MakeOperationGraph(device, {&made.operation}));
  return made;
}

absl::StatusOr<EnginePlan> MakePlan(const Device& device, const ConvolutionProblem& problem,
                                    const GraphDescriptor& engine) {
  return EnginePlan::Make(device, engine,
                          {.full_fp32 = problem.type == Type::kFloat && !problem.tensor_float,
                           .most_workspace = kMostWorkspace});
}

absl::Status Execute(const Device& device, const EnginePlan& plan, void* x, void* w, void* y,
                     void* workspace) {
  return plan.Execute(device, {kX, kW, kY}, {x, w, y}, workspace);
}

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {}
  ~Stopwatch() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  absl::Status Open() {
    PSGD_CUDA(cudaEventCreate(&begin_));
    PSGD_CUDA(cudaEventCreate(&end_));
    return absl::OkStatus();
  }
  // Milliseconds that the device takes for the work.
  absl::StatusOr<float> Time(const std::function<absl::Status()>& work) {
    PSGD_CUDA(cudaEventRecord(begin_, stream_));
    PSGD_RETURN_IF_ERROR(work());
    PSGD_CUDA(cudaEventRecord(end_, stream_));
    PSGD_CUDA(cudaEventSynchronize(end_));
    float milliseconds = 0;
    PSGD_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return milliseconds;
  }

 private:
  const cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Milliseconds of one launch, the fastest of a few replays of some launches. An error of a plan
// that cannot be recorded is right, because steps are recorded.
absl::StatusOr<float> Measure(const Device& device, const EnginePlan& plan, void* x, void* w,
                              void* y) {
  PSGD_ASSIGN_OR_RETURN(const auto memory, device.Allocate(plan.workspace_bytes()));
  void* const workspace = memory->data();
  const auto execute = [&] { return Execute(device, plan, x, w, y, workspace); };
  Stopwatch watch(device.stream());
  PSGD_RETURN_IF_ERROR(watch.Open());
  PSGD_RETURN_IF_ERROR(execute());  // warms up
  PSGD_ASSIGN_OR_RETURN(const float alone, watch.Time(execute));
  const int launches =
      std::clamp(static_cast<int>(kTimedMilliseconds / std::max(alone, 1e-3f)), 1, kMostLaunches);
  RecordedStep recording(device.index(), device.stream());
  PSGD_RETURN_IF_ERROR(recording.Begin());
  absl::Status recorded;
  for (int i = 0; i < launches && recorded.ok(); ++i) recorded = execute();
  recorded.Update(recording.End());
  PSGD_RETURN_IF_ERROR(recorded);
  PSGD_RETURN_IF_ERROR(recording.Replay());  // warms up
  float best = std::numeric_limits<float>::infinity();
  for (int run = 0; run < kTimedRuns; ++run) {
    PSGD_ASSIGN_OR_RETURN(const float all, watch.Time([&] { return recording.Replay(); }));
    best = std::min(best, all / static_cast<float>(launches));
  }
  return best;
}

std::string KeyOf(const Device& device, const ConvolutionProblem& p) {
  const Window& w = p.window;
  return absl::StrCat(device.model(), ", cuDNN ", cudnnGetVersion(), ", driver ", device.driver(),
                      ": ", static_cast<int>(p.pass), " ", static_cast<int>(p.type), " ",
                      p.tensor_float, " ", ShapeText(p.x), " ", ShapeText(p.w), " ", ShapeText(p.y),
                      " ", w.stride.height, "x", w.stride.width, " ", w.pad.height, "x",
                      w.pad.width, " ", w.dilation.height, "x", w.dilation.width,
                      p.layout == Layout::kPlain ? " NCHW" : "");
}

DirectConvolution DirectOf(const ConvolutionProblem& p) {
  const Window& w = p.window;
  return {.images = p.x[0],
          .height = p.x[2],
          .width = p.x[3],
          .channels = p.x[1],
          .out_height = p.y[2],
          .out_width = p.y[3],
          .outputs = p.y[1],
          .groups = p.x[1] / p.w[1],
          .kernel_height = w.kernel.height,
          .kernel_width = w.kernel.width,
          .stride_height = w.stride.height,
          .stride_width = w.stride.width,
          .pad_height = w.pad.height,
          .pad_width = w.pad.width,
          .dilation_height = w.dilation.height,
          .dilation_width = w.dilation.width};
}

cudaError_t RunDirect(const Device& device, const ConvolutionProblem& problem, void* x, void* w,
                      void* y) {
  const DirectConvolution shape = DirectOf(problem);
  switch (problem.pass) {
    case Pass::kBackwardData:
      return DirectData(device.stream(), problem.type, shape, w, y, x);
    case Pass::kBackwardWeights:
      return DirectWeights(device.stream(), problem.type, shape, x, y, w);
    case Pass::kForward:
      break;
  }
  return DirectForward(device.stream(), problem.type, shape, x, w, y);
}

// Rounded up to whole units of memory.
size_t Aligned(size_t bytes) {
  return (bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment * MemoryPlan::kAlignment;
}

size_t BytesOf(const Shape& shape, Type type) {
  return static_cast<size_t>(ElementCount(shape)) * TypeBytes(type);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Convolution>> Convolution::Plan(const Device& device,
                                                               const ConvolutionProblem& problem,
                                                               const std::string& choices,
                                                               bool plan_only) {
  device.Enter();
  ConvolutionProblem tried = problem;
  for (const Layout layout : {Layout::kChannelsLast, Layout::kPlain}) {
    tried.layout = layout;
    auto planned = PlanEngine(device, tried, choices, plan_only);
    if (!absl::IsUnimplemented(planned.status())) return planned;
  }
  auto direct = std::make_shared<Convolution>();
  direct->problem_ = problem;
  direct->direct_ = true;
  return direct;
}

std::shared_ptr<Convolution> Convolution::Make(const ConvolutionProblem& problem, EnginePlan plan) {
  auto made = std::make_shared<Convolution>();
  made->problem_ = problem;
  made->plan_ = std::move(plan);
  made->engine_bytes_ = Aligned(made->plan_.workspace_bytes());
  made->workspace_bytes_ = made->engine_bytes_;
  if (problem.layout == Layout::kPlain) {
    for (const Shape* shape : {&problem.x, &problem.w, &problem.y}) {
      made->workspace_bytes_ += Aligned(BytesOf(*shape, problem.type));
    }
  }
  return made;
}

absl::StatusOr<std::shared_ptr<Convolution>> Convolution::PlanEngine(
    const Device& device, const ConvolutionProblem& problem, const std::string& choices,
    bool plan_only) {
  PSGD_ASSIGN_OR_RETURN(const OperationGraph graph, MakeGraph(device, problem));
  PSGD_ASSIGN_OR_RETURN(const std::vector<GraphDescriptor> engines, FindEngines(graph.graph));
  const std::string key = KeyOf(device, problem);
  EngineChoices& chosen = EngineChoices::Of(choices);
  // Fails if this driver lacks the engine or another process has the memory. Then engines are
  // measured again.
  const auto remembered = [&]() -> std::shared_ptr<Convolution> {
    const auto known = chosen.Find(key);
    if (!known || static_cast<size_t>(*known) >= engines.size()) return nullptr;
    absl::StatusOr<EnginePlan> plan = MakePlan(device, problem, engines[*known]);
    if (!plan.ok() || (!plan_only && !device.Allocate(plan->workspace_bytes()).ok()))
      return nullptr;
    return Make(problem, *std::move(plan));
  };
  if (auto known = remembered()) return known;
  std::optional<EngineChoices::Measuring> measuring;
  if (!plan_only) {
    measuring.emplace(&chosen);
    if (auto known = remembered()) return known;
  }

  std::unique_ptr<DeviceMemory> x, w, y;
  EnginePlan best;
  float best_time = std::numeric_limits<float>::infinity();
  int best_engine = -1;
  int64_t measured = 0;
  bool lacked_memory = false;
  absl::Status why = absl::UnimplementedError("cuDNN has no engine");
  // Skips an engine that cannot be used. If no engine is left, the error prefers a lack of memory.
  const auto pass_over = [&](const absl::Status& reason) {
    if (!absl::IsResourceExhausted(why)) why = reason;
  };
  for (size_t i = 0; i < engines.size() && measured < kMostEngines; ++i) {
    absl::StatusOr<EnginePlan> plan = MakePlan(device, problem, engines[i]);
    if (!plan.ok()) {
      pass_over(plan.status());
      continue;
    }
    if (plan_only) return Make(problem, *std::move(plan));
    if (x == nullptr) {
      PSGD_ASSIGN_OR_RETURN(x, device.Allocate(BytesOf(problem.x, problem.type)));
      PSGD_ASSIGN_OR_RETURN(w, device.Allocate(BytesOf(problem.w, problem.type)));
      PSGD_ASSIGN_OR_RETURN(y, device.Allocate(BytesOf(problem.y, problem.type)));
    }
    const auto time = Measure(device, *plan, x->data(), w->data(), y->data());
    if (!time.ok()) {
      lacked_memory = lacked_memory || absl::IsResourceExhausted(time.status());
      pass_over(time.status());
      continue;
    }
    ++measured;
    if (*time >= kHysteresis * best_time) continue;
    best_time = *time;
    best_engine = static_cast<int>(i);
    best = *std::move(plan);
  }
  if (best_engine < 0) return Annotate(why, absl::StrCat("no usable engine for ", key));
  // With more memory another engine may be faster, so this choice is not kept.
  if (!lacked_memory) chosen.Remember(key, best_engine);
  return Make(problem, std::move(best));
}

absl::Status Convolution::Run(const Device& device, void* x, void* w, void* y, void* workspace) {
  if (direct_) return CheckCall(RunDirect(device, problem_, x, w, y), "DirectConvolution");
  if (problem_.layout == Layout::kPlain) return RunTransposed(device, x, w, y, workspace);
  return Execute(device, plan_, x, w, y, workspace);
}

absl::Status Convolution::RunTransposed(const Device& device, void* x, void* w, void* y,
                                        void* workspace) {
  const Format last = {Layout::kChannelsLast, problem_.type},
               plain = {Layout::kPlain, problem_.type};
  struct Operand {
    const Shape& shape;
    void* const given;
    bool made;  // by this pass
    void* plain = nullptr;
  };
  Operand operands[] = {{problem_.x, x, problem_.pass == Pass::kBackwardData},
                        {problem_.w, w, problem_.pass == Pass::kBackwardWeights},
                        {problem_.y, y, problem_.pass == Pass::kForward}};
  const auto convert = [&](const Operand& of, const void* from, Format from_format, void* to,
                           Format to_format) {
    const ImageShape shape = {of.shape[0], of.shape[1], of.shape[2] * of.shape[3]};
    return CheckCall(Convert(device.stream(), shape, from, from_format, to, to_format), "Convert");
  };
  char* end = static_cast<char*>(workspace) + engine_bytes_;
  for (Operand& of : operands) {
    of.plain = end;
    end += Aligned(BytesOf(of.shape, problem_.type));
    if (!of.made) PSGD_RETURN_IF_ERROR(convert(of, of.given, last, of.plain, plain));
  }
  PSGD_RETURN_IF_ERROR(Execute(device, plan_, operands[0].plain, operands[1].plain,
                               operands[2].plain, engine_bytes_ > 0 ? workspace : nullptr));
  for (const Operand& of : operands) {
    if (of.made) PSGD_RETURN_IF_ERROR(convert(of, of.plain, plain, of.given, last));
  }
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
