#include "engine/runtime/parameter_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
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
      explicit FakeMark(void* event) : event_(event) {}
      void* event() const override { return event_; }
      bool Passed() const override { return true; }

     private:
      void* const event_;
    };
    return std::make_unique<FakeMark>(this);
  }
  absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> MakeKernels(const Graph&,
                                                                   MemoryPlan*) override {
    return absl::UnimplementedError("no kernels");
  }
  void EnterThread() override {}
};

class ParameterMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3; ++i) {
      Parameter parameter;
      parameter.value = graph_.AddTensor("w", {5 + i});
      parameter.gradient = graph_.AddTensor("dw", {5 + i});
      graph_.parameters.push_back(parameter);
    }
    memory_ = ParameterMemory::Create(graph_, &device_).value();
  }

  absl::Status Step(bool finish = true) {
    for (int i = 2; i >= 0; --i) {
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
    EXPECT_EQ(gradient.ready, &device_);
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

TEST_F(ParameterMemoryTest, TellsWhyAGradientCouldNotBeHandedOver) {
  memory_->KeepOnDevice({true, true, true}, [](int, const DeviceGradient&) {
    return absl::InternalError("no launch");
  });
  EXPECT_EQ(Step().message(), "no launch");
  EXPECT_THAT(log_, IsEmpty());
}

}  // namespace
}  // namespace psgd
