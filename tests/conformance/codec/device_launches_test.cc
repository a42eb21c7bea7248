// How many launches the codecs' device twins take for a group of slices: each costs time, even
// where it has nothing to do.
#include <gtest/gtest.h>

#include <vector>

#include "compression/cuda/blocks.h"
#include "compression/cuda/chunked.h"
#include "compression/cuda/dgc.h"
#include "compression/cuda/randomk.h"
#include "compression/cuda/topk.h"
#include "tests/conformance/codec/host_queue.h"

namespace psgd::codec_test {
namespace {

// Launches for slices of that many elements, with the one that sets memory to 0.
template <typename Twin>
int LaunchesOf(const Twin& twin, const std::vector<uint32_t>& sizes = {40000, 41000}) {
  int launches = 0;
  HostRunner runner(/*backwards=*/false, [&](std::function<void()> launch) {
    ++launches;
    launch();
  });
  HostQueue queue(&runner);
  struct Slice {
    std::vector<float> gradient, residual, state;
    std::vector<uint64_t> payload;  // behind its length
    bool varies = false;
  };
  std::vector<Slice> slices(sizes.size());
  for (size_t s = 0; s < slices.size(); ++s) {
    Slice& slice = slices[s];
    RandomStream stream(MakeKey(s, RandomPurpose::kSynthetic), 1);
    const uint32_t elements = sizes[s];
    slice.gradient.resize(elements);
    for (float& value : slice.gradient) value = stream.NextUnit() - 0.5f;
    slice.residual.resize(elements);
    slice.state.resize(elements);
    cuda::CoderOf<Twin, HostQueue> coder(twin, elements);
    slice.payload.resize(2 + coder.Bound(0) / 8 + 1);
    slice.varies = coder.varies();
    cuda::CoderInput input;
    input.source.gradient = slice.gradient.data();
    input.source.residual = slice.residual.data();
    input.state = slice.state.data();
    queue.BeginSlice();
    coder.Encode(queue, input,
                 {reinterpret_cast<std::byte*>(&slice.payload[2]), slice.payload.data()});
  }
  queue.Run();
  for (const Slice& slice : slices) EXPECT_EQ(slice.payload[0] > 8, slice.varies);
  return launches;
}

TEST(DeviceLaunches, AreFew) {
  // Zero, sample, make and list, cut, list, values and plan, codes.
  EXPECT_EQ(LaunchesOf(TopkTwin{.density = 0.01}), 7);
  EXPECT_EQ(LaunchesOf(TopkTwin{.density = 0.01, .sampled = true}), 7);
  // And the mean.
  EXPECT_EQ(LaunchesOf(TopkTwin{.density = 0.01, .values = ValueCoding::kSign}), 8);
  // Without sample and cut; the pass that makes the numbers lists what is sent.
  EXPECT_EQ(LaunchesOf(TopkTwin{.density = 1}), 4);
  EXPECT_EQ(LaunchesOf(ThresholdTwin{.tau = 0.4f}), 4);
  EXPECT_EQ(LaunchesOf(DgcTwin{.density = 0.01, .momentum = 0.5f}), 7);
  EXPECT_EQ(LaunchesOf(DgcTwin{.density = 0.01, .momentum = 0.5f, .limit = 1}), 8);
  EXPECT_EQ(LaunchesOf(RandomkTwin{.density = 0.01}), 1);
  // Zero, norms, cut, list, values and plan, codes.
  EXPECT_EQ(LaunchesOf(BlocksTwin{.density = 0.01, .block = 64}), 6);
  // Zero, cut and list, levels, their codes and plan, codes of indices.
  EXPECT_EQ(LaunchesOf(ChunkedTwin{.chunk = 4096, .keep = 64, .bits = 4}), 5);
}

TEST(DeviceLaunches, AreSharedByLargeAndSmallSlices) {
  const std::vector<uint32_t> sizes = {40000, 1000, 10};
  EXPECT_EQ(LaunchesOf(TopkTwin{.density = 0.01}, sizes), 7);
  EXPECT_EQ(LaunchesOf(TopkTwin{.density = 0.01, .sampled = true}, sizes), 7);
  EXPECT_EQ(LaunchesOf(DgcTwin{.density = 0.01, .momentum = 0.5f}, sizes), 7);
  EXPECT_EQ(LaunchesOf(BlocksTwin{.density = 0.01, .block = 64}, sizes), 6);
  EXPECT_EQ(LaunchesOf(ChunkedTwin{.chunk = 4096, .keep = 64, .bits = 4}, sizes), 5);
  // A slice that keeps more than a third lists no candidates: it shares the launch that sets memory
  // to 0, no other.
  EXPECT_EQ(LaunchesOf(TopkTwin{.density = 0.01}, {40000, 2}), 7 + 5);
}

}  // namespace
}  // namespace psgd::codec_test
