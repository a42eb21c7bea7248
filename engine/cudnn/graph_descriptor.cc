#include "engine/cudnn/graph_descriptor.h"

namespace psgd::cudnn {

GraphDescriptor::GraphDescriptor(cudnnBackendDescriptorType_t type)
    : status_(CheckCall(cudnnBackendCreateDescriptor(type, &descriptor_),
                        "cudnnBackendCreateDescriptor")) {}

GraphDescriptor::~GraphDescriptor() {
  if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
}

GraphDescriptor::GraphDescriptor(GraphDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)), status_(std::move(other.status_)) {}

GraphDescriptor& GraphDescriptor::operator=(GraphDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(status_, other.status_);
  return *this;
}

GraphDescriptor& GraphDescriptor::SetDescriptors(
    cudnnBackendAttributeName_t name, const std::vector<const GraphDescriptor*>& values) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const GraphDescriptor* value : values) raw.push_back(value->descriptor_);
  return SetMany(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()), raw.data());
}

GraphDescriptor& GraphDescriptor::SetMany(cudnnBackendAttributeName_t name,
                                          cudnnBackendAttributeType_t type, int64_t count,
                                          const void* values) {
  if (status_.ok()) {
    status_ = CheckCall(cudnnBackendSetAttribute(descriptor_, name, type, count, values),
                        "cudnnBackendSetAttribute");
  }
  return *this;
}

absl::Status GraphDescriptor::Finalize() {
  if (status_.ok()) status_ = CheckCall(cudnnBackendFinalize(descriptor_), "cudnnBackendFinalize");
  return status_;
}

absl::StatusOr<int64_t> GraphDescriptor::GetInt(cudnnBackendAttributeName_t name) const {
  int64_t value = 0, count = 0;
  PSGD_CUDA(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

}  // namespace psgd::cudnn
