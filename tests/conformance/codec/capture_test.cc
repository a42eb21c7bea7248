// The codecs of a GPU wait for the mark of the step that was replayed last. Only a GPU can run it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "common/plugin.h"
#include "compression/device_codec.h"
#include "compression/error_feedback.h"
#include "compression/twin_options.h"
#include "engine/runtime/plugin.h"
#include "tests/conformance/codec/codec_cases.h"
#include "tests/folders.h"

namespace psgd::codec_test {
namespace {

TEST(CodecCapture, PayloadsAreThoseOfTheirReplay) {
  auto made = LoadBackend("cudnn", PluginDir(), {});
  if (!made.ok()) GTEST_SKIP() << made.status();
  const std::unique_ptr<Backend> backend = *std::move(made);
  const auto found = FindInPlugin("cudnn", PluginDir(), "psgd_make_device_codecs");
  ASSERT_TRUE(found.ok()) << found.status();
  absl::StatusOr<std::unique_ptr<DeviceCodecs>> codecs;
  ASSERT_TRUE(reinterpret_cast<MakeDeviceCodecsFunction>(*found)(PluginInterface(), 0, &codecs));
  ASSERT_TRUE(codecs.ok()) << codecs.status();

  // The upload before each replay takes longer than the host needs to start the codec.
  constexpr size_t kFloats = 16 << 20, kEncoded = 1 << 16;
  constexpr size_t kBytes = kFloats * sizeof(float);
  backend->EnterThread();
  const auto memory = backend->Allocate(kBytes).value();
  const auto source = backend->AllocateHost(kBytes).value();
  const std::span<float> from(static_cast<float*>(source->data()), kFloats);
  const float* const last = static_cast<float*>(memory->data()) + (kFloats - kEncoded);
  std::unique_ptr<Mark> mark;
  const auto recording = backend->Record([&]() -> absl::Status {
    PSGD_ASSIGN_OR_RETURN(mark, backend->SetMark());
    return absl::OkStatus();
  });
  ASSERT_TRUE(recording.ok()) << recording.status();
  CodecConfig fp16;
  fp16.mutable_fp16();
  const auto codec = MakeCodec(fp16, {.backend = CodecBackend::kScalar}).value();
  const SliceShape shape = ShapeOf(kEncoded);
  const auto encoder = (*codecs)->NewEncoder(*MakeTwinOptions(*codec, shape, {})).value();
  ErrorFeedback host(*codec, shape, {.backend = CodecBackend::kScalar});
  for (uint64_t replay = 1; replay <= 12; ++replay) {
    const std::vector<float> expected(kEncoded, static_cast<float>(replay));
    std::ranges::fill(from, static_cast<float>(replay));
    ASSERT_TRUE(backend->Upload(from.data(), memory->data(), kBytes).ok());
    ASSERT_TRUE((*recording)->Replay().ok());
    ASSERT_TRUE(encoder->Start({.gradient = last, .step = replay}, mark->event()).ok());
    std::vector<std::byte> wanted;
    host.Encode(expected, {}, replay, &wanted);
    const auto payload = encoder->Finish();
    ASSERT_TRUE(payload.ok()) << payload.status();
    EXPECT_TRUE(std::ranges::equal(*payload, wanted)) << "the payload is of an older replay";
    EXPECT_TRUE(mark->Passed());
  }
}

}  // namespace
}  // namespace psgd::codec_test
