// Any messages to a shard, with commands of its coordinator in between. A refused message has a
// reason and changes no weight, and accepted messages leave all weights finite. --shard=sync, async
// or unbounded chooses the shard. An input is a row of
//   kind < 200, a message: u8 kind, u8 header bytes, u8 payload bytes, header, payloads
//   otherwise, a command: u8 kind, u8 argument
#include "tests/fuzz/small_shard.h"

#include "tests/fuzz/input_cursor.h"
#include "tests/fuzz/sealed_message.h"

namespace psgd::fuzz {
namespace {

const Config* chosen = nullptr;
constexpr uint8_t kFirstCommand = 200;
constexpr size_t kMostRecords = 64;

void Command(SmallShard& shard, uint8_t kind, uint8_t argument) {
  const uint32_t worker = argument % kShardWorkers;
  switch (kind % 4) {
    case 0:
      return shard.BeginSegmentAt(argument);
    case 1: {
      TakeCheckpoint take;
      take.id = 1 + argument / 16;
      take.clock = argument % 16;
      for (uint32_t w = 0; w < kShardWorkers; ++w) take.savers.push_back(SmallShard::Key(w));
      return shard.Execute(take);
    }
    case 2:
      return shard.Execute(RemoveWorker{SmallShard::Key(worker, 1 + argument / 64)});
    default:
      return shard.Execute(AdmitWorker{SmallShard::Key(worker, 1 + argument / 64)});
  }
}

// `alone`: no accepted push waits.
void Send(SmallShard& shard, Message message, bool alone) {
  const std::vector<float> before = shard.Weights();
  const bool push = message.header.has_push();
  const bool completes = message.header.has_save_state() && !alone;
  const Outbox out = shard.Send(std::move(message));
  for (const Outgoing& outgoing : out) {
    const DataHeader& header = outgoing.message.header;
    if (header.has_refusal())
      Require(!header.refusal().detail().empty(), "refused without a reason");
    Require(EncodeMessage(outgoing.message, kMostMessageBytes).ok(), "an answer cannot be encoded");
  }
  const std::vector<float> after = shard.Weights();
  Require(AllFinite(after), "a weight is not finite");
  if ((!push && !completes) || (alone && IsRefusal(out))) {
    Require(before == after, "the weights changed without a push that was accepted");
  }
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string kind = psgd::fuzz::Variant("shard", *argc, *argv);
  psgd::fuzz::Require(kind == "sync" || kind == "async" || kind == "unbounded",
                      "say which shard, as --shard=async");
  psgd::fuzz::chosen = new psgd::Config(psgd::fuzz::SmallConfig(kind));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  SmallShard shard(*chosen);
  InputCursor input({data, size});
  bool cut = false;
  for (size_t i = 0; i < kMostRecords && !input.AtEnd(); ++i) {
    const uint8_t kind = input.Take<uint8_t>();
    if (kind >= kFirstCommand) {
      // A complete checkpoint releases pushes that were accepted before.
      cut = cut || kind % 4 == 1;
      Command(shard, kind, input.Take<uint8_t>());
      Require(AllFinite(shard.Weights()), "a weight is not finite");
      continue;
    }
    const size_t header_bytes = input.Take<uint8_t>(), body_bytes = input.Take<uint8_t>();
    const auto header = input.TakeBytes(header_bytes);
    const psgd::Bytes whole = SealedMessage(header, input.TakeBytes(body_bytes));
    auto message = psgd::DecodeMessage({&whole, 1}, kMostMessageBytes);
    if (!message.ok()) continue;
    Send(shard, *std::move(message), chosen->consistency().staleness() != 0 && !cut);
  }
  while (auto finished = shard.core().TakeFinishedCut()) {
    Require(finished->snapshot.slices.size() == std::size(kSliceElements), "a cut lacks slices");
  }
  return 0;
}
