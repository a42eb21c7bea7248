// cuDNN's graph interface: descriptors are made, filled, finalized and read.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cudnn/status.h"

namespace psgd::cudnn {

// Owns one descriptor: of a tensor, an operation, a graph of operations, an engine or a plan. Calls
// after an error do nothing; Finalize returns the first error. Not thread-safe.
class GraphDescriptor {
 public:
  GraphDescriptor() = default;
  explicit GraphDescriptor(cudnnBackendDescriptorType_t type);
  ~GraphDescriptor();
  GraphDescriptor(GraphDescriptor&& other) noexcept;
  GraphDescriptor& operator=(GraphDescriptor&& other) noexcept;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <typename T>
  GraphDescriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       const T& value) {
    return SetMany(name, type, 1, &value);
  }
  GraphDescriptor& SetInts(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
    return SetMany(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  GraphDescriptor& SetDescriptor(cudnnBackendAttributeName_t name, const GraphDescriptor& value) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.descriptor_);
  }
  GraphDescriptor& SetDescriptors(cudnnBackendAttributeName_t name,
                                  const std::vector<const GraphDescriptor*>& values);
  GraphDescriptor& SetMany(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           int64_t count, const void* values);

  absl::Status Finalize();

  absl::StatusOr<int64_t> GetInt(cudnnBackendAttributeName_t name) const;

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  absl::Status status_;
};

}  // namespace psgd::cudnn
