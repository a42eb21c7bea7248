#include "engine/runtime/parameter_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/host_memory.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A host backend that pretends to be a device.
class FakeDevice final : public HostBackend {
 public:
  bool computes_on_host() const override { return false; }
  absl::StatusOr<std::unique_ptr<Mark>> SetMark() override {
    class FakeMark final : public Mark {
     public:
      void* event() const override { return const_cast<FakeMark*>(this); }
      bool Passed() const override { return true; }
    };
    ++marks;
    return std::make_unique<FakeMark>();
  }
  absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> MakeKernels(const Graph&,
                                                                   MemoryPlan*) override {
    return absl::UnimplementedError("no kernels");
  }
  void EnterThread() override {}

  int marks = 0;  // set so far
};

class ParameterMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { MakeParameters({5, 6, 7}); }
  void MakeParameters(std::initializer_list<int64_t> counts) {
    graph_ = {};
    for (const int64_t count : counts) {
      Parameter parameter;
      parameter.value = graph_.AddTensor("w", {count});
      parameter.gradient = graph_.AddTensor("dw", {count});
      graph_.parameters.push_back(parameter);
    }
    memory_ = ParameterMemory::Create(graph_, &device_).value();
  }

  absl::Status Step(bool finish = true) {
    for (int i = static_cast<int>(graph_.parameters.size()) - 1; i >= 0; --i) {
      static_cast<float*>(memory_->device_gradient(i))[0] = static_cast<float>(10 + i);
      PSGD_RETURN_IF_ERROR(memory_->Launched(i, nullptr));
    }
    const auto done = [this](int i) { log_.push_back("done " + std::to_string(i)); };
    return memory_->Finish(finish ? ParameterMemory::OnGradient(done) : nullptr);
  }

  Graph graph_;
  FakeDevice device_;
  std::unique_ptr<ParameterMemory> memory_;
  std::vector<std::string> log_;
};

TEST_F(ParameterMemoryTest, BringsGradientsToTheHost) {
  ASSERT_TRUE(Step().ok());
  EXPECT_THAT(log_, ElementsAre("done 2", "done 1", "done 0"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(memory_->gradient(i)[0], 10.0f + i);
}

// Gradients that stay are all handed over before any wait, so that their work runs meanwhile.
TEST_F(ParameterMemoryTest, HandsOverGradientsThatStay) {
  memory_->KeepOnDevice({true, false, true}, [this](int i, const DeviceGradient& gradient) {
    log_.push_back("launched " + std::to_string(i));
    EXPECT_EQ(gradient.gradient, memory_->device_gradient(i));
    EXPECT_EQ(gradient.value, memory_->device_value(i));
    EXPECT_NE(gradient.ready, nullptr);
    return absl::OkStatus();
  });
  ASSERT_TRUE(Step().ok());
  EXPECT_THAT(log_, ElementsAre("launched 2", "launched 0", "done 2", "done 1", "done 0"));
  EXPECT_EQ(memory_->gradient(1)[0], 11.0f);
  EXPECT_EQ(memory_->gradient(2)[0], 0.0f);
  // A step that will be repeated hands over nothing, so residuals stay as they were.
  log_.clear();
  ASSERT_TRUE(Step(false).ok());
  EXPECT_THAT(log_, IsEmpty());
}

// The first gradients wait for few others. Each group is about as large as all before it.
TEST_F(ParameterMemoryTest, MarksGradientsThatLeaveTogether) {
  constexpr int64_t kKibibyte = 1024 / sizeof(float);
  MakeParameters({9 * kKibibyte, 70 * kKibibyte, 1, 90 * kKibibyte, 40 * kKibibyte, 1,
                  60 * kKibibyte, 5 * kKibibyte});
  std::vector<std::vector<int>> together;
  void* last = nullptr;
  memory_->KeepOnDevice({true, true, true, true, true, false, true, true},
                        [&](int i, const DeviceGradient& gradient) {
                          if (std::exchange(last, gradient.ready) != gradient.ready)
                            together.emplace_back();
                          together.back().push_back(i);
                          return absl::OkStatus();
                        });
  for (int step = 1; step <= 2; ++step) {
    together.clear();
    ASSERT_TRUE(Step().ok());
    EXPECT_THAT(together, ElementsAre(ElementsAre(7, 6), ElementsAre(4, 3), ElementsAre(2, 1, 0)));
    EXPECT_EQ(device_.marks, 3 * step);
  }
  // A run that is given up leaves nothing behind.
  ASSERT_TRUE(memory_->Launched(7, nullptr).ok());
  ASSERT_TRUE(memory_->Finish(nullptr).ok());
  together.clear();
  ASSERT_TRUE(Step().ok());
  EXPECT_THAT(together, ElementsAre(ElementsAre(7, 6), ElementsAre(4, 3), ElementsAre(2, 1, 0)));
}

TEST_F(ParameterMemoryTest, TellsWhyAGradientCouldNotBeHandedOver) {
  memory_->KeepOnDevice({true, true, true}, [](int, const DeviceGradient&) {
    return absl::InternalError("no launch");
  });
  EXPECT_EQ(Step().message(), "no launch");
  EXPECT_THAT(log_, IsEmpty());
}

}  // namespace
}  // namespace psgd
