#include "tests/fakes/emulated_cuda/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "tests/fakes/emulated_cuda/elements.h"

namespace psgd::emulated {
namespace {

using Name = cudnnBackendAttributeName_t;
using Values = std::vector<float>;  // of a tensor, in the order of its axes
using Place = std::array<int64_t, 4>;

constexpr size_t kAlignment = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The tensors of an operation.
struct Names {
  std::vector<Name> inputs;
  Name output;
};

// The lengths of the axes of a product of M K by K N.
constexpr Name kLengthsOfProducts[] = {CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                                       CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                                       CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC};

// No inputs if such operations are not emulated.
Names NamesOf(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
               kLengthsOfProducts[0], kLengthsOfProducts[1], kLengthsOfProducts[2]},
              CUDNN_ATTR_OPERATION_MATMUL_CDESC};
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
               CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
              CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC};
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC};
    default:
      return {};
  }
}

Tensor TensorOf(const Descriptor& operation, Name name) { return Tensor(*operation.Other(name)); }

cudnnPointwiseMode_t ModeOf(const Descriptor& pointwise) {
  return pointwise.Other(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
      ->One<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
}
int64_t AxisOf(const Descriptor& pointwise) {
  return pointwise.Other(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
      ->OneOr<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
}
cudnnReduceTensorOp_t ReducerOf(const Descriptor& reduction) {
  return reduction.Other(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
      ->One<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
}

// The number of inputs of a pointwise operation, or 0 if it is not emulated.
size_t InputsOf(cudnnPointwiseMode_t mode) {
  switch (mode) {
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_GEN_INDEX:
      return 1;
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_CMP_GE:
    case CUDNN_POINTWISE_CMP_LT:
    case CUDNN_POINTWISE_LOGICAL_AND:
      return 2;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return 3;
    default:
      return 0;
  }
}

float Apply(cudnnPointwiseMode_t mode, float x, float b, float t) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b;
    case CUDNN_POINTWISE_CMP_LT:
      return x < b;
    case CUDNN_POINTWISE_LOGICAL_AND:
      return x != 0 && b != 0;
    default:  // CUDNN_POINTWISE_BINARY_SELECT
      return t != 0 ? x : b;
  }
}

// `name`: the parameter that is the type in which an operation computes.
bool ComputesInFloat(const Descriptor& parameters, Name name) {
  return parameters.One<cudnnDataType_t>(name) == CUDNN_DATA_FLOAT;
}

// Whether `narrow` is `wide` with some axes of size 1.
bool Broadcasts(const Tensor& narrow, const Tensor& wide) {
  return std::equal(narrow.sizes.begin(), narrow.sizes.end(), wide.sizes.begin(),
                    [](int64_t a, int64_t b) { return a == 1 || a == b; });
}

// Whether these are the lengths of samples.
bool HasLengths(const Tensor& tensor) {
  return tensor.type == CUDA_R_32I && !tensor.is_virtual && !tensor.is_by_value &&
         tensor.sizes[1] == 1 && tensor.sizes[2] == 1 && tensor.sizes[3] == 1;
}

cudnnStatus_t CheckTensor(const Tensor& tensor) {
  if (tensor.sizes.size() != tensor.strides.size()) return CUDNN_STATUS_BAD_PARAM;
  if (tensor.sizes.size() != Place().size() || tensor.type == CUDA_R_64F) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (tensor.is_virtual && tensor.is_by_value) return CUDNN_STATUS_BAD_PARAM;
  if (tensor.is_by_value && tensor.Count() != 1) return CUDNN_STATUS_BAD_PARAM;
  // Only masks need these, and all but the lengths of samples stay in the kernel.
  const bool of_mask = tensor.type == CUDA_R_32I || tensor.type == CUDA_R_8U;
  if (!tensor.is_virtual && of_mask && !HasLengths(tensor)) return CUDNN_STATUS_NOT_SUPPORTED;
  return CUDNN_STATUS_SUCCESS;
}

// `widest`: the widest head that the device's engines take.
cudnnStatus_t CheckProduct(const Descriptor& operation, int64_t widest) {
  const Tensor a = TensorOf(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const Tensor b = TensorOf(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const Tensor c = TensorOf(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  for (const int axis : {0, 1}) {
    if (a.sizes[axis] != c.sizes[axis] || b.sizes[axis] != c.sizes[axis]) {
      return CUDNN_STATUS_BAD_PARAM;
    }
  }
  if (a.sizes[2] != c.sizes[2] || a.sizes[3] != b.sizes[2] || b.sizes[3] != c.sizes[3]) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  for (const Name name : kLengthsOfProducts) {
    if (!operation.others.contains(name)) continue;
    const Tensor lengths = TensorOf(operation, name);
    if (!HasLengths(lengths) || lengths.sizes[0] != c.sizes[0]) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (a.type != b.type || (a.type != CUDA_R_16BF && a.type != CUDA_R_16F) ||
      !ComputesInFloat(*operation.Other(CUDNN_ATTR_OPERATION_MATMUL_DESC),
                       CUDNN_ATTR_MATMUL_COMP_TYPE)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  // Scores stay in the kernel and are sums along a head. Other products give heads.
  const int64_t width = c.is_virtual ? a.sizes[3] : c.sizes[3];
  return width % 8 == 0 && width <= widest ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t CheckPointwise(const Descriptor& operation, const std::vector<Name>& names) {
  const size_t inputs = InputsOf(ModeOf(operation));
  if (inputs == 0) return CUDNN_STATUS_NOT_SUPPORTED;
  const Tensor y = TensorOf(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  for (size_t i = 0; i < names.size(); ++i) {
    if (operation.others.contains(names[i]) != (i < inputs)) return CUDNN_STATUS_BAD_PARAM;
    if (i < inputs && !Broadcasts(TensorOf(operation, names[i]), y)) return CUDNN_STATUS_BAD_PARAM;
  }
  const int64_t axis = AxisOf(operation);
  const bool has_axis = axis >= 0 && axis < static_cast<int64_t>(y.sizes.size());
  return has_axis == (ModeOf(operation) == CUDNN_POINTWISE_GEN_INDEX) ? CUDNN_STATUS_SUCCESS
                                                                      : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t CheckReduction(const Descriptor& operation) {
  const cudnnReduceTensorOp_t reducer = ReducerOf(operation);
  if ((reducer != CUDNN_REDUCE_TENSOR_ADD && reducer != CUDNN_REDUCE_TENSOR_MAX) ||
      !ComputesInFloat(*operation.Other(CUDNN_ATTR_OPERATION_REDUCTION_DESC),
                       CUDNN_ATTR_REDUCTION_COMP_TYPE)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  return Broadcasts(TensorOf(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC),
                    TensorOf(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC))
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_BAD_PARAM;
}

std::vector<int64_t> WithLastAxesExchanged(std::vector<int64_t> of_axes) {
  std::swap(of_axes[2], of_axes[3]);
  return of_axes;
}

// The engines know a reshape only as a view of the same elements with the last axes exchanged.
cudnnStatus_t CheckReshape(const Descriptor& operation) {
  const Tensor x = TensorOf(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  const Tensor y = TensorOf(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  if (x.Count() != y.Count()) return CUDNN_STATUS_BAD_PARAM;
  return y.sizes == WithLastAxesExchanged(x.sizes) && y.strides == WithLastAxesExchanged(x.strides)
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_NOT_SUPPORTED;
}

// Calls visit(place) for each place. The last axis changes fastest.
template <typename Visit>
void ForEachPlace(const std::vector<int64_t>& sizes, Visit visit) {
  Place at;
  for (at[0] = 0; at[0] < sizes[0]; ++at[0])
    for (at[1] = 0; at[1] < sizes[1]; ++at[1])
      for (at[2] = 0; at[2] < sizes[2]; ++at[2])
        for (at[3] = 0; at[3] < sizes[3]; ++at[3]) visit(std::as_const(at));
}

// Steps in the values of a tensor, 0 for an axis of size 1.
Place StepsOf(const Tensor& tensor) {
  Place steps;
  int64_t step = 1;
  for (size_t axis = steps.size(); axis-- > 0;) {
    steps[axis] = tensor.sizes[axis] == 1 ? 0 : step;
    step *= tensor.sizes[axis];
  }
  return steps;
}

size_t IndexOf(const Place& place, const Place& steps) {
  int64_t index = 0;
  for (size_t axis = 0; axis < place.size(); ++axis) index += place[axis] * steps[axis];
  return static_cast<size_t>(index);
}

// One run of a graph.
class GraphRun {
 public:
  // `values`: those that are known before.
  GraphRun(const std::map<int64_t, void*>& memory, std::map<int64_t, Values> values, double error)
      : memory_(memory), values_(std::move(values)), scale_(static_cast<float>(1 + error)) {}

  void Run(const Descriptor& operation) {
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return Multiply(operation);
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return Map(operation);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return Reduce(operation);
      default:
        return Transpose(operation);
    }
  }

 private:
  const Values& Read(const Tensor& tensor) {
    const auto [found, is_new] = values_.try_emplace(tensor.id);
    if (is_new) {
      ForEachPlace(tensor.sizes, [&, &values = found->second](const Place& at) {
        values.push_back(
            Load(memory_.at(tensor.id), tensor.At(at[0], at[1], at[2], at[3]), tensor.type));
      });
    }
    return found->second;
  }

  void Write(const Tensor& tensor, Values values) {
    for (float& value : values) {
      value = Rounded(tensor.is_virtual ? value : value * scale_, tensor.type);
    }
    if (!tensor.is_virtual) {
      size_t i = 0;
      ForEachPlace(tensor.sizes, [&](const Place& at) {
        Store(values[i++], memory_.at(tensor.id), tensor.At(at[0], at[1], at[2], at[3]),
              tensor.type);
      });
    }
    values_[tensor.id] = std::move(values);
  }

  // What lies behind lengths is NaN, because cuDNN may leave anything there.
  void Multiply(const Descriptor& operation) {
    const Tensor a = TensorOf(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    const Tensor b = TensorOf(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    const Tensor c = TensorOf(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const int64_t m = c.sizes[2], n = c.sizes[3], k = a.sizes[3];
    const float *of_a = Read(a).data(), *of_b = Read(b).data();
    Values sums(c.Count(), std::numeric_limits<float>::quiet_NaN());
    float* of_c = sums.data();
    for (int64_t i = 0; i < c.sizes[0] * c.sizes[1]; ++i) {
      const auto length = [&](Name name, int64_t size) {
        if (!operation.others.contains(name)) return size;
        return static_cast<int64_t>(Read(TensorOf(operation, name))[i / c.sizes[1]]);
      };
      const int64_t rows = length(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, m);
      const int64_t columns = length(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, n);
      const int64_t inner = length(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, k);
      // cuDNN would read behind its memory, and before 9.25 makes NaN of length 0.
      const bool sound = rows <= m && columns <= n && inner <= k && rows * columns * inner > 0;
      for (int64_t row = 0; sound && row < rows; ++row) {
        std::fill_n(of_c + row * n, columns, 0.0f);
        for (int64_t at = 0; at < inner; ++at) {
          const float factor = of_a[row * k + at];
          for (int64_t column = 0; column < columns; ++column) {
            of_c[row * n + column] += factor * of_b[at * n + column];  // in fp32, as on a device
          }
        }
      }
      of_a += m * k, of_b += k * n, of_c += m * n;
    }
    Write(c, std::move(sums));
  }

  void Map(const Descriptor& operation) {
    const cudnnPointwiseMode_t mode = ModeOf(operation);
    const Tensor y = TensorOf(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const Values none(1);
    struct Input {
      const Values* values;
      Place steps;
      float At(const Place& at) const { return (*values)[IndexOf(at, steps)]; }
    };
    const auto input = [&](Name name) -> Input {
      if (!operation.others.contains(name)) return {&none, {}};
      const Tensor tensor = TensorOf(operation, name);
      return {&Read(tensor), StepsOf(tensor)};
    };
    Values made;
    made.reserve(y.Count());
    if (mode == CUDNN_POINTWISE_GEN_INDEX) {
      const auto axis = static_cast<size_t>(AxisOf(operation));
      ForEachPlace(y.sizes, [&](const Place& at) { made.push_back(static_cast<float>(at[axis])); });
    } else {
      const Input x = input(CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
                  b = input(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                  t = input(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
      ForEachPlace(y.sizes, [&](const Place& at) {
        made.push_back(Apply(mode, x.At(at), b.At(at), t.At(at)));
      });
    }
    Write(y, std::move(made));
  }

  void Reduce(const Descriptor& operation) {
    const Tensor x = TensorOf(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    const Tensor y = TensorOf(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const bool adds = ReducerOf(operation) == CUDNN_REDUCE_TENSOR_ADD;
    const Place steps = StepsOf(y);
    const Values& from = Read(x);
    Values made(y.Count(), adds ? 0 : -kInfinity);
    size_t i = 0;
    ForEachPlace(x.sizes, [&](const Place& at) {
      const float value = from[i++];
      float& to = made[IndexOf(at, steps)];
      if (adds) {
        to += value;
      } else if (value > to || std::isnan(value)) {
        to = value;
      }
    });
    Write(y, std::move(made));
  }

  void Transpose(const Descriptor& operation) {
    const Tensor x = TensorOf(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    const Tensor y = TensorOf(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    Place steps = StepsOf(x);
    std::swap(steps[2], steps[3]);
    const Values& from = Read(x);
    Values made;
    made.reserve(y.Count());
    ForEachPlace(y.sizes, [&](const Place& at) { made.push_back(from[IndexOf(at, steps)]); });
    Write(y, std::move(made));
  }

  const std::map<int64_t, void*>& memory_;
  std::map<int64_t, Values> values_;
  const float scale_;
};

}  // namespace

cudnnStatus_t CheckGraph(const Descriptor& graph, int capability) {
  const std::vector<Known>& operations = graph.others.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const bool backward = std::ranges::any_of(operations, [](const Known& operation) {
    return operation->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
  });
  if (capability < 80) return CUDNN_STATUS_NOT_SUPPORTED;
  const int64_t widest = backward && capability < 90 ? 128 : 256;
  std::map<int64_t, Known> tensors;
  std::set<int64_t> made;
  std::set<int64_t> differences;  // from numbers in memory, as the log sums
  std::set<int64_t> of_lengths;   // what compares places with lengths
  for (const Known& operation : operations) {
    const Names names = NamesOf(operation->type);
    if (names.inputs.empty()) return CUDNN_STATUS_NOT_SUPPORTED;
    // Checks a tensor and that no other one has its id.
    const auto check = [&](Name name) {
      const Known& known = operation->Other(name);
      const Tensor tensor(*known);
      if (tensors.emplace(tensor.id, known).first->second != known) return CUDNN_STATUS_BAD_PARAM;
      return CheckTensor(tensor);
    };
    for (const Name name : names.inputs) {
      if (!operation->others.contains(name)) continue;
      if (const cudnnStatus_t status = check(name); status != CUDNN_STATUS_SUCCESS) return status;
      const Tensor input = TensorOf(*operation, name);
      if (input.is_virtual && !made.contains(input.id)) return CUDNN_STATUS_BAD_PARAM;
    }
    if (const cudnnStatus_t status = check(names.output); status != CUDNN_STATUS_SUCCESS) {
      return status;
    }
    const Tensor output = TensorOf(*operation, names.output);
    if (output.is_by_value || !made.insert(output.id).second) return CUDNN_STATUS_BAD_PARAM;
    const cudnnStatus_t status = [&] {
      switch (operation->type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
          return CheckProduct(*operation, widest);
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
          return CheckPointwise(*operation, names.inputs);
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
          return CheckReduction(*operation);
        default:
          return CheckReshape(*operation);
      }
    }();
    if (status != CUDNN_STATUS_SUCCESS) return status;
    if (operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) continue;
    const cudnnPointwiseMode_t mode = ModeOf(*operation);
    if (mode == CUDNN_POINTWISE_SUB &&
        !TensorOf(*operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC).is_virtual) {
      differences.insert(output.id);
    }
    const bool reads_lengths = std::ranges::any_of(names.inputs, [&](Name name) {
      if (!operation->others.contains(name)) return false;
      const Tensor input = TensorOf(*operation, name);
      return HasLengths(input) || of_lengths.contains(input.id);
    });
    if (output.type == CUDA_R_8U && reads_lengths) of_lengths.insert(output.id);
    // Backward engines know a mask without lengths only after the subtraction of the log sums.
    if (backward && mode == CUDNN_POINTWISE_BINARY_SELECT && !reads_lengths &&
        !differences.contains(TensorOf(*operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC).id)) {
      return CUDNN_STATUS_NOT_SUPPORTED;
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

std::function<void()> BindGraph(const Known& graph, const std::map<int64_t, void*>& memory,
                                double error) {
  std::map<int64_t, Values> given;
  for (const Known& operation : graph->others.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    for (const auto& [name, others] : operation->others) {
      if (others.at(0)->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
      const Tensor tensor(*others[0]);
      if (tensor.is_virtual) continue;
      const auto found = memory.find(tensor.id);
      if (found == memory.end() || found->second == nullptr) return nullptr;
      if (tensor.is_by_value) {
        given[tensor.id] = {Load(found->second, 0, tensor.type)};
      } else if (!IsAligned(found->second, kAlignment)) {
        return nullptr;
      }
    }
  }
  return [=] {
    GraphRun run(memory, given, error);
    for (const Known& operation : graph->others.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      run.Run(*operation);
    }
  };
}

}  // namespace psgd::emulated
