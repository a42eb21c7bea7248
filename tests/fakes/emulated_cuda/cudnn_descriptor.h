// The objects behind the descriptors of the emulated cuDNN.
#pragma once

#include <cudnn.h>
#include <library_types.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace psgd::emulated {

struct Descriptor;
using Known = std::shared_ptr<const Descriptor>;

// Descriptors that refer to this one share it, so it may outlive the caller's handle.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, std::vector<char>> values;
  std::map<cudnnBackendAttributeName_t, std::vector<Known>> others;
  size_t engine = 0;  // index in Settings::engines
  bool final = false;

  template <typename T>
  std::vector<T> Many(cudnnBackendAttributeName_t name) const {
    const std::vector<char>& bytes = values.at(name);
    std::vector<T> read(bytes.size() / sizeof(T));
    std::memcpy(read.data(), bytes.data(), bytes.size());
    return read;
  }
  template <typename T>
  T One(cudnnBackendAttributeName_t name) const {
    return Many<T>(name).at(0);
  }
  // The value, or `otherwise` if it is not set.
  template <typename T>
  T OneOr(cudnnBackendAttributeName_t name, T otherwise) const {
    return values.contains(name) ? One<T>(name) : otherwise;
  }
  const Known& Other(cudnnBackendAttributeName_t name) const { return others.at(name).at(0); }
};

// The object behind a caller's pointer.
struct Handle {
  std::shared_ptr<Descriptor> descriptor;
};

// A type in which cuDNN cannot compute here is CUDA_R_64F.
inline cudaDataType_t TypeOf(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return CUDA_R_32F;
    case CUDNN_DATA_BFLOAT16:
      return CUDA_R_16BF;
    case CUDNN_DATA_HALF:
      return CUDA_R_16F;
    case CUDNN_DATA_INT32:
      return CUDA_R_32I;
    case CUDNN_DATA_BOOLEAN:
      return CUDA_R_8U;
    default:
      return CUDA_R_64F;
  }
}

struct Tensor {
  explicit Tensor(const Descriptor& of)
      : id(of.One<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
        sizes(of.Many<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides(of.Many<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)),
        type(TypeOf(of.One<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE))),
        is_virtual(of.OneOr<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0),
        is_by_value(of.OneOr<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0) {}

  int64_t At(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
  size_t Count() const { return static_cast<size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3]); }

  int64_t id;
  std::vector<int64_t> sizes, strides;  // of four axes
  cudaDataType_t type;
  bool is_virtual;   // it has no memory
  bool is_by_value;  // its memory is the host's
};

}  // namespace psgd::emulated
