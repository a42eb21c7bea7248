// The tensors of a program: their names and shapes, and the weights that the program got last.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/model.pb.h"

namespace psgd {

struct ClientTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool statistic = false;
  bool decays = false;
  bool sparse = false;  // most rows of an update are zero
};

// Not thread-safe.
class ClientTensors {
 public:
  ClientTensors() { model_.set_name("client"); }

  // `first` has as many values as the shape.
  absl::Status Add(const ClientTensor& tensor, std::span<const float> first);

  const ModelSpec& model() const { return model_; }
  size_t size() const { return weights_.size(); }
  // The tensor exists.
  absl::Status Check(uint32_t tensor) const;
  // It exists and has so many elements.
  absl::Status Check(uint32_t tensor, size_t elements) const;

  // REQUIRES of all below: the tensor exists.
  const ParameterSpec& spec(uint32_t tensor) const {
    return model_.parameters(static_cast<int>(tensor));
  }
  const std::string& name(uint32_t tensor) const { return spec(tensor).name(); }
  bool is_statistic(uint32_t tensor) const {
    return spec(tensor).role() == ParameterSpec::STATISTIC;
  }
  std::span<const float> weights(uint32_t tensor) const { return weights_[tensor]; }
  std::span<float> mutable_weights(uint32_t tensor) { return weights_[tensor]; }

 private:
  ModelSpec model_;
  std::vector<std::vector<float>> weights_;  // by tensor: the first weights, then the latest ones
};

}  // namespace psgd
