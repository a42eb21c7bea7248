// The codecs of a GPU wait for the stream on which a program makes its values. Only a GPU can run
// it; tests/unit/client/device_test.cc runs programs on an emulated one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/loaded_library.h"
#include "common/plugin.h"
#include "compression/device_codec.h"
#include "compression/error_feedback.h"
#include "compression/twin_options.h"
#include "tests/conformance/codec/codec_cases.h"
#include "tests/folders.h"

namespace psgd::codec_test {
namespace {

// What the test uses of CUDA's driver: a program's own memory and stream.
class Driver {
 public:
  absl::Status Load() {
    PSGD_ASSIGN_OR_RETURN(LoadedLibrary library, LoadedLibrary::Load("libcuda.so.1", "install it"));
    library.Find("cuStreamCreate", &new_stream_);
    library.Find("cuMemAlloc_v2", &allocate_);
    library.Find("cuMemAllocHost_v2", &allocate_pinned_);
    library.Find("cuMemcpyHtoDAsync_v2", &upload_);
    return library.FoundAll("install a newer driver");
  }
  // Streams and memory live as long as the process.
  void* NewStream() const {
    constexpr unsigned kDoesNotWaitForTheDefaultStream = 1;
    void* stream = nullptr;
    EXPECT_EQ(new_stream_(&stream, kDoesNotWaitForTheDefaultStream), 0);
    return stream;
  }
  uintptr_t Allocate(size_t bytes) const {
    uintptr_t memory = 0;
    EXPECT_EQ(allocate_(&memory, bytes), 0);
    return memory;
  }
  void* AllocatePinned(size_t bytes) const {
    void* memory = nullptr;
    EXPECT_EQ(allocate_pinned_(&memory, bytes), 0);
    return memory;
  }
  void Upload(uintptr_t to, const void* from, size_t bytes, void* stream) const {
    EXPECT_EQ(upload_(to, from, bytes, stream), 0);
  }

 private:
  int (*new_stream_)(void**, unsigned) = nullptr;
  int (*allocate_)(uintptr_t*, size_t) = nullptr;
  int (*allocate_pinned_)(void**, size_t) = nullptr;
  int (*upload_)(uintptr_t, const void*, size_t, void*) = nullptr;
};

TEST(ProgramStream, PayloadsAreOfWhatTheStreamMadeLast) {
  const auto found = FindInPlugin("cudnn", PluginDir(), "psgd_make_device_codecs");
  if (!found.ok()) GTEST_SKIP() << found.status();
  absl::StatusOr<std::unique_ptr<DeviceCodecs>> codecs;
  ASSERT_TRUE(reinterpret_cast<MakeDeviceCodecsFunction>(*found)(PluginInterface(), 0, &codecs));
  if (!codecs.ok()) GTEST_SKIP() << codecs.status();
  EXPECT_EQ((*codecs)->ThreadDevice(), 0);
  (*codecs)->SetThreadDevice(0);
  Driver driver;
  const absl::Status loaded = driver.Load();
  ASSERT_TRUE(loaded.ok()) << loaded;

  // The upload takes longer than the host needs to start the codec; the last elements come last.
  constexpr size_t kFloats = 16 << 20, kEncoded = 1 << 16;
  constexpr size_t kBytes = kFloats * sizeof(float);
  const uintptr_t memory = driver.Allocate(kBytes);
  float* const source = static_cast<float*>(driver.AllocatePinned(kBytes));
  const float* const last = reinterpret_cast<const float*>(memory) + (kFloats - kEncoded);
  CodecConfig int8;
  int8.mutable_int8();
  const auto codec = MakeCodec(int8, {.backend = CodecBackend::kScalar}).value();
  const SliceShape shape = ShapeOf(kEncoded);
  const auto encoder = (*codecs)->NewEncoder(*MakeTwinOptions(*codec, shape, {})).value();
  ErrorFeedback host(*codec, shape, {.backend = CodecBackend::kScalar});
  const std::vector<float> before(kEncoded, 0.75f);
  const auto base = (*codecs)->Upload(before).value();
  EXPECT_TRUE((*codecs)->CheckMemory(last).ok());
  EXPECT_TRUE((*codecs)->CheckMemory(base->data()).ok());
  EXPECT_TRUE(absl::IsInvalidArgument((*codecs)->CheckMemory(source)));
  EXPECT_TRUE(absl::IsInvalidArgument((*codecs)->CheckMemory(before.data())));
  void* const of_each_thread = reinterpret_cast<void*>(uintptr_t{2});  // cudaStreamPerThread
  EXPECT_TRUE(absl::IsInvalidArgument((*codecs)->EventOf(of_each_thread).status()));
  for (void* const stream : {static_cast<void*>(nullptr), driver.NewStream()}) {
    for (uint64_t step = 1; step <= 12; ++step) {
      std::vector<float> difference(kEncoded);
      for (size_t i = 0; i < kFloats; ++i) source[i] = static_cast<float>(step * 7 + i % 11) / 16;
      for (size_t i = 0; i < kEncoded; ++i) {
        difference[i] = before[i] - source[kFloats - kEncoded + i];
      }
      driver.Upload(memory, source, kBytes, stream);
      void* const ready = (*codecs)->EventOf(stream).value();
      DeviceEncodeInput input;
      input.gradient = base->data();
      input.weights = last;
      input.weight_decay = -1;
      input.step = step;
      ASSERT_TRUE(encoder->Start(input, ready).ok());
      EXPECT_FALSE(encoder->IsDone().value());  // nothing is launched yet
      ASSERT_TRUE((*codecs)->Flush().ok());
      while (!encoder->IsDone().value()) {
      }
      std::vector<std::byte> wanted;
      host.Encode(difference, {}, step, &wanted);
      const auto payload = encoder->Finish();
      ASSERT_TRUE(payload.ok()) << payload.status();
      EXPECT_TRUE(std::ranges::equal(*payload, wanted)) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace psgd::codec_test
