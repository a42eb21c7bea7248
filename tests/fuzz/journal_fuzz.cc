// Any contents under a valid checksum, as a journal's entry or as a leader's message to followers.
// --journal=steps: each entry is refused or read back, and a shard replays it or says that it does
// not fit. --journal=image: the record is refused, or gives a shard that can be written again. An
// input is a row of
//   u16 length, contents
#include "server/durability/journal_format.h"
#include "server/durability/stored_value.h"
#include "tests/fuzz/input_cursor.h"
#include "tests/fuzz/small_shard.h"

namespace psgd::fuzz {
namespace {

bool image = false;
constexpr uint64_t kMostSteps = 64;

// Returns `contents` as a journal stores it.
std::string Sealed(const JournalKey& key, const std::string& contents) {
  std::string value;
  BeginStored(kJournalFormatVersion, contents.size(), &value);
  value += contents;
  EndStored({key.data(), key.size()}, &value);
  return value;
}

void GoSteps(InputCursor input) {
  SmallShard shard(SmallConfig("async"), /*journal=*/true);
  shard.core().TakeJournal();
  for (uint64_t number = 1; number <= kMostSteps && !input.AtEnd(); ++number) {
    const JournalKey key = EncodeJournalKey(JournalKind::kEntry, number);
    std::string value = Sealed(key, input.TakeText(input.Take<uint16_t>()));
    const auto entry = DecodeEntry(key, value);
    if (entry.ok()) {
      std::string again;
      EncodeEntry(key, *entry, &again);
      const auto same = DecodeEntry(key, again);
      Require(same.ok() && same->head.SerializeAsString() == entry->head.SerializeAsString() &&
                  same->payloads.size() == entry->payloads.size(),
              "an entry is another after it was written and read");
      (void)shard.core().Replay(*entry);
    } else {
      Require(!entry.status().message().empty(), "refused without a reason");
    }
    Require(!DecodeEntry(EncodeJournalKey(JournalKind::kEntry, number + 1), value).ok(),
            "an entry is taken for another");
    value.back() ^= 1;
    Require(!DecodeEntry(key, value).ok(), "a changed entry is taken");
  }
  (void)shard.core().MakeImage();
}

void MakeShard(InputCursor input) {
  const JournalKey key = EncodeJournalKey(JournalKind::kImage, 1);
  const auto record = DecodeImage(key, Sealed(key, input.TakeText(input.Take<uint16_t>())));
  if (!record.ok()) return;
  ShardImage made = SmallShard(SmallConfig("async")).core().MakeImage();
  made.record = *record;
  ShardCore core(ShardOptions{.config = SmallConfig("async"), .journal = true});
  const absl::Status restored = core.Restore(made);
  if (!restored.ok()) return Require(!restored.message().empty(), "refused without a reason");
  const ShardImage again = core.MakeImage();
  Require(again.arrays.slices.size() == made.arrays.slices.size(), "slices were lost");
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string kind = psgd::fuzz::Variant("journal", *argc, *argv);
  psgd::fuzz::Require(kind == "steps" || kind == "image", "say what, as --journal=steps");
  psgd::fuzz::image = kind == "image";
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  image ? MakeShard(InputCursor({data, size})) : GoSteps(InputCursor({data, size}));
  return 0;
}
