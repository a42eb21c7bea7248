// Sums on a device equal those of the host's twins to the last bit. Payloads round these sums so
// much that other tests would not notice a difference.
#include <gtest/gtest.h>

#include <vector>

#include "compression/cuda/dgc.h"
#include "compression/cuda/powersgd.h"
#include "compression/cuda/sign.h"
#include "compression/cuda/ternary.h"
#include "compression/dense/sign_bits.h"
#include "compression/kernels.h"
#include "compression/low_rank/orthonormal.h"
#include "tests/conformance/codec/host_queue.h"

namespace psgd::codec_test {
namespace {

struct Keep {
  double* sum;
  PS_HD void operator()(double value) const { *sum = value; }
};

// Returns numbers of many sizes, so that any other order gives another sum.
std::vector<float> Numbers(size_t count) {
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), count);
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = std::ldexp(stream.NextUnit() - 0.5f, static_cast<int>(stream.NextBelow(120)) - 60);
  }
  return numbers;
}

class DeviceSums : public ::testing::TestWithParam<std::tuple<bool, size_t>> {
 protected:
  // Runs what launch(queue) launches.
  template <typename Launch>
  void Run(Launch launch) {
    HostRunner runner(std::get<0>(GetParam()));
    HostQueue queue(&runner);
    queue.BeginSlice();
    launch(queue);
    queue.Run();
  }

  const CodecKernels& kernels_ = KernelsFor(CodecBackend::kScalar);
  std::vector<float> numbers_ = Numbers(std::get<1>(GetParam()));
};

TEST_P(DeviceSums, OfSquaresGoByStretches) {
  Moments expected;
  for (size_t begin = 0; begin < numbers_.size(); begin += kSumStretch) {
    const auto part =
        std::span(numbers_).subspan(begin).first(std::min(kSumStretch, numbers_.size() - begin));
    const Moments moments = kernels_.ternary.measure(part, nullptr);
    expected.sum_squares += moments.sum_squares;
    expected.largest = std::max(expected.largest, moments.largest);
  }
  double sum = -1;
  uint32_t largest = 0;
  cuda::Source source;
  source.gradient = numbers_.data();
  Run([&](HostQueue& queue) {
    cuda::SumSquares(queue, source, static_cast<uint32_t>(numbers_.size()), nullptr, &largest,
                     Keep{&sum});
  });
  EXPECT_EQ(sum, expected.sum_squares);
  EXPECT_EQ(largest, MagnitudeBits(expected.largest));
}

TEST_P(DeviceSums, OfDrawnMagnitudesGoByGroupsAndStretches) {
  TernaryDraw draw = {0x1p-40f, MakeKey(1, RandomPurpose::kCodec), 7, 0};
  Drawn expected;
  std::vector<std::byte> digits(TernaryDigitBytes(numbers_.size()) + 1), made(digits.size());
  for (size_t begin = 0; begin < numbers_.size(); begin += kSumStretch) {
    draw.first = static_cast<uint32_t>(begin);
    const auto part =
        std::span(numbers_).subspan(begin).first(std::min(kSumStretch, numbers_.size() - begin));
    const Drawn drawn = kernels_.ternary.draw(part, draw, &digits[begin / kTernaryDigits]);
    expected.sum += drawn.sum;
    expected.count += drawn.count;
  }
  double sum = -1;
  cuda::TernaryFit fit = {};
  fit.limit = draw.limit;
  cuda::Source source;
  source.gradient = numbers_.data();
  Run([&](HostQueue& queue) {
    const uint32_t stretches = cuda::StretchesOf(numbers_.size());
    queue.Launch(stretches, cuda::DrawBody<Keep>{source, static_cast<uint32_t>(numbers_.size()),
                                                 draw.key, draw.step, &fit, made.data(),
                                                 cuda::NewSums(queue, stretches, Keep{&sum})});
  });
  EXPECT_EQ(sum, expected.sum);
  EXPECT_EQ(fit.drawn, expected.count);
  EXPECT_EQ(made, digits);
}

TEST_P(DeviceSums, OfMagnitudesGoByLanesOfFloats) {
  std::vector<std::byte> bits(SignBytes(numbers_.size()));
  const double expected = SplitAllSigns(numbers_, {}, bits.data(), kernels_);
  cuda::Source source;
  source.gradient = numbers_.data();
  const cuda::BlockTiles stretches =
      cuda::TilesOfBlocks(source, static_cast<uint32_t>(numbers_.size()), kSignStretch);
  double sum = -1;
  Run([&](HostQueue& queue) {
    queue.Launch(
        stretches.launched(),
        cuda::MagnitudesBody<Keep>{stretches, cuda::NewSums(queue, stretches.blocks, Keep{&sum})});
  });
  EXPECT_EQ(sum, expected);
}

// Large products cancel, and the rest of the small ones reveals the order.
TEST_P(DeviceSums, OfColumnsGoByLanesOfRows) {
  const size_t rows = numbers_.size(), half = rows / 2 + 1;
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), rows + 1);
  std::vector<float> matrix(2 * rows);
  for (size_t row = 0; row < rows; ++row) {
    const size_t pair = row % half;
    matrix[2 * row] = std::ldexp(1.0f, static_cast<int>(pair % 20));
    matrix[2 * row + 1] =
        (row < half ? 1.0f : -1.0f) * std::ldexp(1.0f, static_cast<int>(pair % 31));
    if (pair % 5 == 0) matrix[2 * row + 1] = std::ldexp(stream.NextUnit() - 0.5f, -20);
    if (pair % 7 == 0) matrix[2 * row + 1] = 0;
  }
  std::vector<float> expected = matrix;
  MakeOrthonormal(expected, 2);
  Run([&](HostQueue& queue) { queue.Launch(1, cuda::OrthonormalBody{matrix.data(), rows, 2}); });
  EXPECT_EQ(matrix, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Lengths, DeviceSums,
    ::testing::Combine(::testing::Bool(), ::testing::Values(1, 17, 320, 5119, 5120, 5121, 100003)));

}  // namespace
}  // namespace psgd::codec_test
