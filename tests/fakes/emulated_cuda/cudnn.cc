// cuDNN as loops: the part of the graph interface that a convolution or an attention needs. It
// offers several engines, and some of them must not be chosen; see settings.h.
#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/fakes/emulated_cuda/cudnn_descriptor.h"
#include "tests/fakes/emulated_cuda/cudnn_graph.h"
#include "tests/fakes/emulated_cuda/elements.h"
#include "tests/fakes/emulated_cuda/runtime.h"
#include "tests/fakes/emulated_cuda/settings.h"

struct cudnnContext {
  int device = psgd::emulated::CurrentDevice();
  cudaStream_t stream = nullptr;
};

namespace psgd::emulated {
namespace {

Descriptor* Of(cudnnBackendDescriptor_t handle) {
  return static_cast<Handle*>(handle)->descriptor.get();
}

size_t BytesOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}

// The strides of a convolution's tensors leave no gaps, so these keep the order of the memory.
std::vector<float> ReadAll(const Tensor& tensor, const void* data, bool tensor_float) {
  std::vector<float> read(tensor.Count());
  for (size_t i = 0; i < read.size(); ++i) {
    read[i] = Load(data, static_cast<int64_t>(i), tensor.type);
    if (tensor_float && tensor.type == CUDA_R_32F) read[i] = TensorFloat(read[i]);
  }
  return read;
}
void WriteAll(const Tensor& tensor, const std::vector<float>& from, void* data) {
  for (size_t i = 0; i < from.size(); ++i) {
    Store(from[i], data, static_cast<int64_t>(i), tensor.type);
  }
}

struct Problem {
  Tensor x, w, y;
  std::vector<int64_t> stride, pad, dilation;

  // Calls visit(element of x, of w, of y) for each product of the convolution.
  template <typename Visit>
  void ForEachProduct(Visit visit) const {
    const int64_t channels = w.sizes[1], outputs = w.sizes[0];
    const int64_t groups = x.sizes[1] / channels;
    for (int64_t n = 0; n < y.sizes[0]; ++n)
      for (int64_t row = 0; row < y.sizes[2]; ++row)
        for (int64_t column = 0; column < y.sizes[3]; ++column)
          for (int64_t u = 0; u < w.sizes[2]; ++u) {
            const int64_t from_row = row * stride[0] - pad[0] + u * dilation[0];
            if (from_row < 0 || from_row >= x.sizes[2]) continue;
            for (int64_t v = 0; v < w.sizes[3]; ++v) {
              const int64_t from_column = column * stride[1] - pad[1] + v * dilation[1];
              if (from_column < 0 || from_column >= x.sizes[3]) continue;
              for (int64_t o = 0; o < outputs; ++o) {
                const int64_t first = o / (outputs / groups) * channels;
                const int64_t of_y = y.At(n, o, row, column);
                for (int64_t c = 0; c < channels; ++c) {
                  visit(x.At(n, first + c, from_row, from_column), w.At(o, c, u, v), of_y);
                }
              }
            }
          }
  }
};

void Convolve(const Problem& problem, cudnnBackendDescriptorType_t pass, const Engine& engine,
              void* x, void* w, void* y) {
  const bool tensor_float = engine.note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  const auto read = [&](const Tensor& tensor, void* data) {
    return ReadAll(tensor, data, tensor_float);
  };
  const auto run = [&](const Tensor& out, void* data, const std::vector<float>& a,
                       const std::vector<float>& b, auto places) {
    std::vector<float> sums(out.Count());  // as on a device
    problem.ForEachProduct([&](size_t of_x, size_t of_w, size_t of_y) {
      const auto [to, first, second] = places(of_x, of_w, of_y);
      sums[to] += a[first] * b[second];
    });
    for (float& sum : sums) sum *= static_cast<float>(1 + engine.error);
    WriteAll(out, sums, data);
  };
  struct Places {
    size_t to, first, second;
  };
  if (pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    run(problem.x, x, read(problem.w, w), read(problem.y, y), [](size_t i, size_t j, size_t k) {
      return Places{i, j, k};
    });
  } else if (pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) {
    run(problem.w, w, read(problem.x, x), read(problem.y, y), [](size_t i, size_t j, size_t k) {
      return Places{j, i, k};
    });
  } else {
    run(problem.y, y, read(problem.x, x), read(problem.w, w), [](size_t i, size_t j, size_t k) {
      return Places{k, i, j};
    });
  }
}

// The three tensors and the window of an operation, in any pass.
Problem ProblemOf(const Descriptor& operation) {
  const Descriptor *tensors[3] = {}, *window = nullptr;
  for (const auto& [name, others] : operation.others) {
    const Descriptor* const other = others.at(0).get();
    if (other->type == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) {
      window = other;
    } else {
      // The ids 1, 2 and 3 are x, w and y, as in engine/cudnn/convolution.cc.
      tensors[other->One<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID) - 1] = other;
    }
  }
  return {Tensor(*tensors[0]),
          Tensor(*tensors[1]),
          Tensor(*tensors[2]),
          window->Many<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
          window->Many<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
          window->Many<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS)};
}

// Whether cuDNN has engines for the convolution.
bool IsSupported(const Descriptor& operation) {
  const Problem problem = ProblemOf(operation);
  const bool forward = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool groups = problem.x.sizes[1] != problem.w.sizes[1];
  const bool dilated = problem.dilation != std::vector<int64_t>{1, 1};
  const bool channels_last = problem.x.strides[1] == 1 && problem.y.strides[1] == 1;
  const bool depthwise = problem.w.sizes[1] == 1 && groups;
  if (forward || problem.x.type != CUDA_R_32F) return true;
  return channels_last ? !groups && !dilated : !depthwise;
}

// The operations behind an engine's configuration.
const Known& GraphOf(const Descriptor& config) {
  return config.Other(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
}

// The graph's operation if it is a single convolution, or null.
const Descriptor* ConvolutionIn(const Descriptor& graph) {
  const std::vector<Known>& operations = graph.others.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations.size() != 1) return nullptr;
  switch (operations[0]->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return operations[0].get();
    default:
      return nullptr;
  }
}

// cuDNN names no engine for a graph of several operations that it cannot compute.
cudnnStatus_t CheckFused(const Descriptor& graph) {
  return ConvolutionIn(graph) == nullptr ? CheckGraph(graph, GetSettings().capability)
                                         : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CheckPlan(const Descriptor& config) {
  if (!GetSettings().engines[config.engine].plans) return CUDNN_STATUS_NOT_SUPPORTED;
  const Descriptor* const convolution = ConvolutionIn(*GraphOf(config));
  const bool supported = convolution == nullptr || IsSupported(*convolution);
  return supported ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

// The work of a run, or nothing if cuDNN refuses the memory.
std::function<void()> BindPlan(const Known& graph, const Descriptor& pack, const Engine& engine) {
  const auto data = pack.Many<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  // Replicas have threads, so the counts are atomic.
  const Descriptor* const convolution = ConvolutionIn(*graph);
  if (convolution == nullptr) {
    const auto ids = pack.Many<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    std::map<int64_t, void*> memory;
    for (size_t i = 0; i < std::min(ids.size(), data.size()); ++i) memory[ids[i]] = data[i];
    auto work = BindGraph(graph, memory, engine.error);
    if (work != nullptr) ++std::atomic_ref(GetSettings().attentions);
    return work;
  }
  constexpr size_t kDeclared = 16;
  for (const void* of : data) {
    if (!IsAligned(of, kDeclared)) return nullptr;
  }
  ++std::atomic_ref(GetSettings().convolutions);
  return [=, problem = ProblemOf(*convolution), pass = convolution->type] {
    Convolve(problem, pass, engine, data[0], data[1], data[2]);
  };
}

// Fills one of the caller's descriptors with a result.
void Fill(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name, const Known& of,
          size_t engine) {
  Descriptor* const descriptor = Of(handle);
  descriptor->others[name] = {of};
  descriptor->engine = engine;
  descriptor->final = true;
}

}  // namespace
}  // namespace psgd::emulated

using psgd::emulated::GetSettings;
using psgd::emulated::Handle;
using psgd::emulated::Of;

size_t cudnnGetVersion() { return CUDNN_VERSION; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the emulation"; }
void cudnnGetLastErrorString(char* text, size_t size) {
  if (size > 0) *text = 0;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* handle) {
  *handle = new Handle{std::make_shared<psgd::emulated::Descriptor>()};
  Of(*handle)->type = type;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  delete static_cast<Handle*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  psgd::emulated::Descriptor* const descriptor = Of(handle);
  if (descriptor->final) return CUDNN_STATUS_NOT_INITIALIZED;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* const handles = static_cast<const cudnnBackendDescriptor_t*>(values);
    std::vector<psgd::emulated::Known>& others = descriptor->others[name];
    others.clear();
    for (int64_t i = 0; i < count; ++i) {
      others.push_back(static_cast<Handle*>(handles[i])->descriptor);
      if (!others.back()->final) return CUDNN_STATUS_BAD_PARAM;
    }
    return others.empty() ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
  }
  const char* const bytes = static_cast<const char*>(values);
  descriptor->values[name].assign(bytes, bytes + count * psgd::emulated::BytesOf(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  psgd::emulated::Descriptor* const descriptor = Of(handle);
  if (descriptor->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const auto& config = *descriptor->Other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    descriptor->engine = config.engine;
    const cudnnStatus_t status = psgd::emulated::CheckPlan(config);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  descriptor->final = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t handle,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t wanted, int64_t* count,
                                       void* values) {
  psgd::emulated::Descriptor* const descriptor = Of(handle);
  const psgd::emulated::Engine& engine = GetSettings().engines[descriptor->engine];
  auto* const handles = static_cast<cudnnBackendDescriptor_t*>(values);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      // The second half of the engines are fallback engines.
      const bool rest = descriptor->One<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) ==
                        CUDNN_HEUR_MODE_FALLBACK;
      const psgd::emulated::Known graph = descriptor->Other(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      const cudnnStatus_t status = psgd::emulated::CheckFused(*graph);
      if (status == CUDNN_STATUS_BAD_PARAM) return status;
      const auto all = static_cast<int64_t>(GetSettings().engines.size());
      const int64_t half = all / 2;
      *count = status != CUDNN_STATUS_SUCCESS ? 0 : rest ? all - half : half;
      for (int64_t i = 0; i < std::min(wanted, *count); ++i) {
        psgd::emulated::Fill(handles[i], CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph,
                             static_cast<size_t>(rest ? half + i : i));
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      psgd::emulated::Fill(handles[0], name, nullptr, descriptor->engine);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = engine.note.has_value();
      if (engine.note) *static_cast<cudnnBackendNumericalNote_t*>(values) = *engine.note;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *count = 1;
      *static_cast<int64_t*>(values) = engine.workspace;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const psgd::emulated::Known& graph =
      psgd::emulated::GraphOf(*Of(plan)->Other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  const auto workspace = Of(pack)->One<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const psgd::emulated::Engine engine = GetSettings().engines[Of(plan)->engine];
  const auto bytes = static_cast<size_t>(engine.workspace);
  if (bytes > 0 && workspace == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (handle->device != psgd::emulated::CurrentDevice()) return CUDNN_STATUS_EXECUTION_FAILED;
  constexpr size_t kOfWorkspaces = 256;
  if (!psgd::emulated::IsAligned(workspace, kOfWorkspaces)) return CUDNN_STATUS_BAD_PARAM;
  const std::function<void()> work = psgd::emulated::BindPlan(graph, *Of(pack), engine);
  if (work == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const double microseconds =
      psgd::emulated::Recording()
          ? engine.microseconds
          : std::max(engine.microseconds, GetSettings().launch_microseconds);
  psgd::emulated::Put(handle->stream, [=] {
    if (bytes > 0) std::memset(workspace, 0xFF, bytes);  // destroys the old contents
    work();
    psgd::emulated::Spend(microseconds);
  });
  return CUDNN_STATUS_SUCCESS;
}
