// Any answers to a worker's session. The session must not crash. Its messages and memory stay in
// bounds, and weights are installed as they were checked or not at all. An input is a row of
//   kind < 200, an answer: u8 kind, u8 header bytes, u8 payload bytes, header, payloads
//   otherwise, a worker's action: u8 kind
#include <cmath>
#include <vector>

#include "tests/fuzz/input_cursor.h"
#include "tests/fuzz/sealed_message.h"
#include "tests/fuzz/small_shard.h"
#include "worker/install_slice.h"
#include "worker/session_core.h"

namespace psgd::fuzz {
namespace {

constexpr uint8_t kFirstAction = 200;
constexpr size_t kMostRecords = 64;
constexpr size_t kMostSent = 1000;  // between two records; a record causes only a few pushes

// Slices 0 and 1 are on one shard, the other slices on another.
Placement TwoShards() {
  Placement placement = SmallPlacement();
  for (int i = 2; i < placement.slices_size(); ++i) placement.mutable_slices(i)->set_shard(1);
  placement.add_endpoints("tcp://127.0.0.1:2");
  return placement;
}

class Worker {
 public:
  Worker() : placement_(TwoShards()), session_(Options(), placement_, now_) {
    for (const ParameterSpec& parameter : model_.parameters()) {
      uint64_t elements = 1;
      for (const int64_t size : parameter.shape()) elements *= static_cast<uint64_t>(size);
      weights_.emplace_back(elements);
    }
  }

  // False: the worker gives up.
  bool Act(uint8_t kind) {
    switch (kind % 6) {
      case 0:
        if (!session_.pulling()) session_.Pull(clock_, now_);
        return true;
      case 1:
        ++clock_;
        for (uint32_t slice = 0; slice < std::size(kSliceElements); ++slice) {
          const std::vector<float> gradient(kSliceElements[slice], 0.5f);
          session_.Push(clock_, {slice, CODEC_NONE, Bytes::CopyOf(AsBytes(gradient))}, now_);
        }
        session_.EndClock(clock_, now_);
        return true;
      case 2: {
        const std::vector<float> residual(kSliceElements[0]);
        session_.SaveState(clock_, {{0, Bytes::CopyOf(AsBytes(residual))}}, now_);
        return true;
      }
      case 3:
        if (!session_.loading()) session_.LoadState(now_);
        return true;
      case 4:
        if (!session_.probing()) session_.Probe(Bytes::Adopt(std::vector<std::byte>(64)), now_);
        return true;
      default:
        now_ += Milliseconds(1500);
        return session_.Tick(now_).ok();
    }
  }

  bool Hear(PeerId from, const Message& message) {
    const bool pulling = session_.pulling();
    session_.OnMessage(from, message, now_);
    if (!pulling || session_.pulling()) return true;
    const std::vector<PulledSlice> pulled = session_.TakePulled();
    Require(pulled.size() == std::size(kSliceElements), "a pull brought other slices");
    const auto weights = [&](int p) { return std::span<float>(weights_[static_cast<size_t>(p)]); };
    return InstallPulled(pulled, PullInstaller(codecs_, model_, placement_, own_, weights, weights))
        .ok();
  }

  void SendAll() {
    size_t sent = 0;
    while (const auto next = session_.Next()) {
      Require(++sent < kMostSent, "it sends without end");
      Require(next->to < 2, "it sends to a shard that there is not");
      Require(EncodeMessage(*next->message, kMostMessageBytes).ok(),
              "it sends what cannot be sent");
      session_.Sent(now_);
    }
  }

 private:
  static SessionOptions Options() {
    SessionOptions options;
    options.key = SmallShard::Key(1);
    options.window_bytes = 600;
    options.fuse_bytes = 64;
    return options;
  }

  const ModelSpec model_ = SmallModel();
  const Placement placement_;
  const CodecTable codecs_;
  const PushedFactors own_;
  Time now_ = Milliseconds(100000);
  SessionCore session_;
  std::vector<std::vector<float>> weights_;
  uint64_t clock_ = 0;
};

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  Worker worker;
  InputCursor input({data, size});
  for (size_t i = 0; i < kMostRecords && !input.AtEnd(); ++i) {
    const uint8_t kind = input.Take<uint8_t>();
    bool goes_on = true;
    if (kind >= kFirstAction) {
      goes_on = worker.Act(kind);
    } else {
      const size_t header_bytes = input.Take<uint8_t>(), body_bytes = input.Take<uint8_t>();
      const auto header = input.TakeBytes(header_bytes);
      const psgd::Bytes whole = SealedMessage(header, input.TakeBytes(body_bytes));
      const auto message = psgd::DecodeMessage({&whole, 1}, kMostMessageBytes);
      if (message.ok()) goes_on = worker.Hear(kind % 3, *message);
    }
    if (!goes_on) return 0;
    worker.SendAll();
  }
  return 0;
}
