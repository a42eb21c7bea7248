// The emulated NCCL has NCCL's rules: a sum waits for the stream that is behind.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace psgd {
namespace {

using ::testing::ElementsAre;

constexpr int kParts = 3;
constexpr size_t kCount = 2;

class EmulatedNcclTest : public ::testing::Test {
 protected:
  // A device of the group, with memory for numbers and for a factor.
  struct Part {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    float *numbers = nullptr, *factor = nullptr;
    ncclRedOp_t weighted{};
  };

  void SetUp() override {
    std::vector<ncclComm_t> comms(kParts);
    const std::vector<int> devices = {0, 1, 2};
    ASSERT_EQ(ncclCommInitAll(comms.data(), kParts, devices.data()), ncclSuccess);
    for (int i = 0; i < kParts; ++i) {
      Part& part = parts_[i];
      part.comm = comms[static_cast<size_t>(i)];
      cudaSetDevice(i);
      ASSERT_EQ(cudaStreamCreateWithFlags(&part.stream, cudaStreamNonBlocking), cudaSuccess);
      ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&part.numbers), 4096), cudaSuccess);
      part.factor = part.numbers + kCount;
      ASSERT_EQ(ncclRedOpCreatePreMulSum(&part.weighted, part.factor, ncclFloat, ncclScalarDevice,
                                         part.comm),
                ncclSuccess);
    }
  }
  void TearDown() override {
    for (Part& part : parts_) {
      ncclCommAbort(part.comm);
      cudaStreamDestroy(part.stream);
      cudaFree(part.numbers);
    }
  }

  // Writes numbers behind the present work of the part's stream.
  void Write(int part, const std::vector<float>& numbers, float factor) {
    std::vector<float> all = numbers;
    all.push_back(factor);
    ASSERT_EQ(cudaMemcpyAsync(parts_[part].numbers, all.data(), all.size() * sizeof(float),
                              cudaMemcpyHostToDevice, parts_[part].stream),
              cudaSuccess);
  }
  ncclResult_t Reduce(int part, size_t count = kCount) {
    cudaSetDevice(part);
    return ncclReduce(parts_[part].numbers, parts_[part].numbers, count, ncclFloat,
                      parts_[part].weighted, 0, parts_[part].comm, parts_[part].stream);
  }
  std::vector<float> Read(int part) {
    std::vector<float> numbers(kCount);
    cudaMemcpyAsync(numbers.data(), parts_[part].numbers, kCount * sizeof(float),
                    cudaMemcpyDeviceToHost, parts_[part].stream);
    return numbers;
  }

  Part parts_[kParts];
};

TEST_F(EmulatedNcclTest, AddsUpWhatTheStreamsMadeBefore) {
  for (int again = 1; again <= 20; ++again) {
    const auto number = static_cast<float>(again);
    for (int i = kParts; i-- > 0;) {
      Write(i, {number, static_cast<float>(i)}, 0.5f * static_cast<float>(i + 1));
      ASSERT_EQ(Reduce(i), ncclSuccess);
    }
    EXPECT_THAT(Read(0), ElementsAre(3 * number, 4));
    EXPECT_THAT(Read(1), ElementsAre(number, 1)) << "only the root has the sums";
  }
}

TEST_F(EmulatedNcclTest, WaitsForAPartThatIsLaunchedLater) {
  Write(0, {1, 2}, 1);
  ASSERT_EQ(Reduce(0), ncclSuccess);
  std::atomic<bool> read = false;
  std::thread reader([&] {
    EXPECT_THAT(Read(0), ElementsAre(111, 222));
    read = true;
  });
  Write(1, {10, 20}, 1);
  ASSERT_EQ(Reduce(1), ncclSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(read);
  Write(2, {100, 200}, 1);
  ASSERT_EQ(Reduce(2), ncclSuccess);
  reader.join();
}

TEST_F(EmulatedNcclTest, AThreadLaunchesAllPartsInAGroup) {
  ncclGroupStart();
  for (int i = 0; i < kParts; ++i) {
    Write(i, {1, 2}, 2);
    ASSERT_EQ(Reduce(i), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_THAT(Read(0), ElementsAre(6, 12));
}

TEST_F(EmulatedNcclTest, AnAbortEndsTheWaitsOfItsPart) {
  Write(0, {1, 2}, 1);
  ASSERT_EQ(Reduce(0), ncclSuccess);
  std::thread aborter([&] { EXPECT_EQ(ncclCommAbort(parts_[0].comm), ncclSuccess); });
  EXPECT_THAT(Read(0), ElementsAre(1, 2));
  aborter.join();
  EXPECT_EQ(Reduce(0), ncclInvalidArgument);
}

TEST_F(EmulatedNcclTest, RefusesToBeRecorded) {
  ASSERT_EQ(cudaStreamBeginCapture(parts_[0].stream, cudaStreamCaptureModeThreadLocal),
            cudaSuccess);
  EXPECT_EQ(Reduce(0), ncclInvalidUsage);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(parts_[0].stream, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST_F(EmulatedNcclTest, RefusesWhatNcclForbids) {
  ncclComm_t comms[2];
  const int twice[] = {1, 1}, absent[] = {0, 7};
  EXPECT_EQ(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage);
  EXPECT_EQ(ncclCommInitAll(comms, 2, absent), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  Part& part = parts_[0];
  const auto reduce = [&](ncclDataType_t type, int operation, int root, cudaStream_t stream) {
    return ncclReduce(part.numbers, part.numbers, 1, type, static_cast<ncclRedOp_t>(operation),
                      root, part.comm, stream);
  };
  cudaSetDevice(1);
  EXPECT_EQ(reduce(ncclFloat, ncclSum, 0, part.stream), ncclInvalidUsage) << "another device's";
  cudaSetDevice(0);
  EXPECT_EQ(reduce(ncclFloat, ncclSum, 0, parts_[1].stream), ncclInvalidUsage);
  EXPECT_EQ(reduce(ncclFloat, ncclSum, kParts, part.stream), ncclInvalidArgument);
  EXPECT_EQ(reduce(ncclHalf, ncclSum, 0, part.stream), ncclInvalidArgument);
  EXPECT_EQ(reduce(ncclFloat, part.weighted + 1, 0, part.stream), ncclInvalidArgument);
}

// NCCL would hang or add up other numbers.
TEST_F(EmulatedNcclTest, PartsThatReduceDifferentlyEndTheProgram) {
  ASSERT_EQ(Reduce(0), ncclSuccess);
  EXPECT_DEATH(Reduce(1, kCount - 1), "parts 1 and 0 of a group reduce differently in their call");
}

}  // namespace
}  // namespace psgd
