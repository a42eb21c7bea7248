// Runs a graph on a backend for tests: holds the memory of its external tensors, filled with NaN
// before every run wherever the run is to write. T is the type of the backend's reals.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/backend.h"
#include "engine/executor.h"
#include "engine/graph.h"

namespace psgd::testing {

template <typename T>
class GraphRunner {
 public:
  // An absent backend or graph that it cannot run fails the test.
  GraphRunner(Graph graph, std::unique_ptr<Backend> backend)
      : graph_(std::move(graph)), backend_(std::move(backend)) {
    auto executor = Executor::Create(graph_, backend_.get());
    EXPECT_TRUE(executor.ok()) << executor.status();
    if (!executor.ok()) return;
    executor_ = *std::move(executor);
    executor_->set_poison(true);
    auto memory = backend_->Allocate(executor_->temporary_bytes());
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    std::vector<ExternalMemory> externals;
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& tensor = graph_.tensors[i];
      if (!tensor.external) continue;
      std::vector<double>& storage = external_[static_cast<TensorId>(i)];
      storage.resize(ElementCount(tensor.shape));  // room for any element type
      externals.push_back({static_cast<TensorId>(i), storage.data()});
    }
    const absl::Status bound = executor_->Bind(memory_->data(), externals);
    EXPECT_TRUE(bound.ok()) << bound;
  }

  void Set(TensorId tensor, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (graph_.tensors[tensor].element == Element::kInt32) {
        Write<int32_t>(tensor, i, values[i]);
      } else {
        Write<T>(tensor, i, values[i]);
      }
    }
  }

  std::vector<double> Get(TensorId tensor) const {
    std::vector<double> values(ElementCount(graph_.shape(tensor)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = graph_.tensors[tensor].element == Element::kDouble ? Read<double>(tensor, i)
                                                                     : Read<T>(tensor, i);
    }
    return values;
  }

  void Run(uint64_t step = 0) {
    ASSERT_NE(executor_, nullptr);
    const absl::Status status = executor_->Run({step, ++version_}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }

 private:
  template <typename U>
  void Write(TensorId tensor, size_t i, double value) {
    const U element = static_cast<U>(value);
    std::memcpy(reinterpret_cast<char*>(external_.at(tensor).data()) + i * sizeof(U), &element,
                sizeof(U));
  }
  template <typename U>
  double Read(TensorId tensor, size_t i) const {
    U element;
    std::memcpy(&element,
                reinterpret_cast<const char*>(external_.at(tensor).data()) + i * sizeof(U),
                sizeof(U));
    return element;
  }

  const Graph graph_;
  const std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Executor> executor_;
  std::map<TensorId, std::vector<double>> external_;
  uint64_t version_ = 0;
};

}  // namespace psgd::testing
