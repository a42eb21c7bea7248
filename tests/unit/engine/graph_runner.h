// Runs a graph on a backend for tests. It holds the memory of external tensors, and fills outputs
// with NaN before every run. T is the type of the backend's reals.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/graph/graph.h"
#include "engine/runtime/backend.h"
#include "engine/runtime/executor.h"

namespace psgd::testing {

template <typename T>
class GraphRunner {
 public:
  // A null backend, or a graph that the backend cannot run, fails the test.
  GraphRunner(Graph graph, std::unique_ptr<Backend> backend)
      : graph_(std::move(graph)), backend_(std::move(backend)) {
    auto executor = Executor::Create(graph_, backend_.get());
    EXPECT_TRUE(executor.ok()) << executor.status();
    if (!executor.ok()) return;
    executor_ = *std::move(executor);
    executor_->set_poison(true);
    auto memory = backend_->Allocate(executor_->plan().temporary_bytes());
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    std::vector<ExternalMemory> externals;
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& tensor = graph_.tensors[i];
      if (!tensor.external) continue;
      External& external = external_[static_cast<TensorId>(i)];
      external.bytes = static_cast<size_t>(ElementCount(tensor.shape)) * SizeOf(tensor.element);
      auto device = backend_->Allocate(external.bytes);
      EXPECT_TRUE(device.ok()) << device.status();
      external.device = *std::move(device);
      externals.push_back({static_cast<TensorId>(i), external.device->data()});
    }
    const absl::Status bound = executor_->Bind(memory_->data(), externals);
    EXPECT_TRUE(bound.ok()) << bound;
  }

  void Set(TensorId tensor, const std::vector<double>& values) {
    if (graph_.tensors[tensor].element == Element::kInt32) {
      UploadAs<int32_t>(tensor, values);
    } else {
      UploadAs<T>(tensor, values);
    }
  }

  std::vector<double> Get(TensorId tensor) const {
    return graph_.tensors[tensor].element == Element::kDouble ? DownloadAs<double>(tensor)
                                                              : DownloadAs<T>(tensor);
  }

  void Run(uint64_t step = 0) {
    ASSERT_NE(executor_, nullptr);
    const absl::Status status = executor_->Run({step, ++version_}, nullptr, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }

 private:
  struct External {
    std::unique_ptr<DeviceMemory> device;
    size_t bytes = 0;
  };

  static size_t SizeOf(Element element) {
    return element == Element::kInt32    ? sizeof(int32_t)
           : element == Element::kDouble ? sizeof(double)
                                         : sizeof(T);
  }
  // Tests are not optimized, and networks are large, so the loops take pointers.
  template <typename U>
  void UploadAs(TensorId tensor, const std::vector<double>& values) {
    const External& external = external_.at(tensor);
    std::vector<U> host(external.bytes / sizeof(U));
    const double* const from = values.data();
    U* const to = host.data();
    const size_t size = values.size();
    for (size_t i = 0; i < size; ++i) to[i] = static_cast<U>(from[i]);
    EXPECT_TRUE(backend_->Upload(host.data(), external.device->data(), external.bytes).ok());
  }
  template <typename U>
  std::vector<double> DownloadAs(TensorId tensor) const {
    std::vector<double> values(ElementCount(graph_.shape(tensor)));
    const External& external = external_.at(tensor);
    std::vector<U> host(external.bytes / sizeof(U));
    EXPECT_TRUE(backend_->Download(external.device->data(), host.data(), external.bytes).ok());
    const U* const from = host.data();
    double* const to = values.data();
    const size_t size = values.size();
    for (size_t i = 0; i < size; ++i) to[i] = from[i];
    return values;
  }

  const Graph graph_;
  const std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Executor> executor_;
  std::map<TensorId, External> external_;
  uint64_t version_ = 0;
};

}  // namespace psgd::testing
