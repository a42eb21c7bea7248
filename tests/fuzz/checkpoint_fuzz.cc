// Any manifest (--checkpoint=manifest), or any values under a manifest with matching receipts
// (--checkpoint=values). The input is refused, or gives a checkpoint of which every range can be
// cut out. An input of `values` is
//   u16 bytes of the manifest's message, the message, then records of
//   u8 shard, u8 kind, u8 first, u8 second, u16 length, contents
#include <cstring>

#include "experiment/record/weights_collector.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/snapshot_reader.h"
#include "server/shard/placement.h"
#include "tests/fuzz/input_cursor.h"
#include "tests/fuzz/memory_file.h"

namespace psgd::fuzz {
namespace {

bool values = false;
constexpr size_t kMostShards = 4;

// The layout of server/durability/checkpoint_manifest.cc.
std::vector<uint8_t> ManifestFile(std::span<const uint8_t> message) {
  std::vector<uint8_t> file(32 + message.size());
  std::memcpy(file.data(), "PSGDCKPT", 8);
  file[8] = kCheckpointFormatVersion;
  const uint64_t numbers[] = {message.size(), ChecksumOf(std::as_bytes(message))};
  std::memcpy(file.data() + 16, numbers, sizeof numbers);
  std::copy(message.begin(), message.end(), file.begin() + 32);
  return file;
}

absl::StatusOr<CheckpointManifest> Read(std::span<const uint8_t> file) {
  static MemoryFile memory;
  memory.Set(file);
  return ReadManifest(memory.path());
}

void Use(const LoadedCheckpoint& loaded) {
  for (const ParameterSpec& parameter : loaded.manifest().model().parameters()) {
    const uint64_t elements = ElementsOf(parameter);
    for (const auto& [offset, count] :
         {std::pair<uint64_t, uint64_t>{0, elements}, {elements / 2, elements - elements / 2}}) {
      const auto contents = loaded.Extract(parameter.name(), offset, count);
      Require(contents.ok(), "a range cannot be cut out");
      Require(contents->weights.size() == count * sizeof(float), "a range has another length");
    }
    Require(!loaded.Extract(parameter.name(), 1, elements).ok(), "there are values beyond the end");
  }
  const WeightsCollector weights = WeightsCollector::FromCheckpoint(loaded);
  Require(weights.model().parameters_size() == loaded.manifest().model().parameters_size(),
          "parameters were lost");
}

void ReadManifestAlone(std::span<const uint8_t> data) {
  const auto manifest = Read(ManifestFile(data));
  Require(manifest.ok() || !manifest.status().message().empty(), "refused without a reason");
  // The unsealed input usually has a wrong checksum.
  (void)Read(data);
  if (!manifest.ok()) return;
  const std::vector<ShardSnapshot> none(static_cast<size_t>(manifest->shards_size()));
  const auto loaded = LoadedCheckpoint::Assemble(*manifest, none);
  if (loaded.ok()) Use(*loaded);
}

void ReadValues(std::span<const uint8_t> data) {
  InputCursor input(data);
  const size_t length = input.Take<uint16_t>();
  auto manifest = Read(ManifestFile(input.TakeBytes(length)));
  if (!manifest.ok() || manifest->shards().empty()) return;
  const size_t shards = std::min<size_t>(kMostShards, manifest->shards_size());
  manifest->mutable_shards()->DeleteSubrange(static_cast<int>(shards),
                                             manifest->shards_size() - static_cast<int>(shards));
  std::vector<SnapshotReader> readers(shards);
  std::vector<Checksum> sums(shards);
  for (ShardReceipt& receipt : *manifest->mutable_shards()) receipt.set_values(0);
  while (!input.AtEnd()) {
    const size_t shard = input.Take<uint8_t>() % shards;
    const ValueKey key{static_cast<ValueKind>(input.Take<uint8_t>()), input.Take<uint8_t>(),
                       input.Take<uint8_t>()};
    const size_t count = input.Take<uint16_t>();
    const auto contents = input.TakeBytes(count);
    const auto encoded = EncodeKey(key);
    const absl::string_view name(encoded.data(), encoded.size());
    std::string value;
    AddToContents(name, EncodeValue(name, std::as_bytes(contents), &value), &sums[shard]);
    if (!readers[shard].Add(name, value).ok()) return;
    ShardReceipt& receipt = *manifest->mutable_shards(static_cast<int>(shard));
    receipt.set_values(receipt.values() + 1);
    value.back() ^= 1;
    Require(!SnapshotReader().Add(name, value).ok(), "a changed value is taken");
  }
  std::vector<ShardSnapshot> snapshots;
  for (size_t shard = 0; shard < shards; ++shard) {
    ShardReceipt& receipt = *manifest->mutable_shards(static_cast<int>(shard));
    receipt.set_content_checksum(sums[shard].Value());
    auto snapshot = readers[shard].Finish(receipt);
    Require(snapshot.ok(), "the values are not those that were given");
    snapshots.push_back(*std::move(snapshot));
  }
  const auto loaded = LoadedCheckpoint::Assemble(*std::move(manifest), snapshots);
  if (loaded.ok()) return Use(*loaded);
  Require(!loaded.status().message().empty(), "it was refused without a reason");
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string kind = psgd::fuzz::Variant("checkpoint", *argc, *argv);
  psgd::fuzz::Require(kind == "manifest" || kind == "values", "say what, as --checkpoint=values");
  psgd::fuzz::values = kind == "values";
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  values ? ReadValues({data, size}) : ReadManifestAlone({data, size});
  return 0;
}
