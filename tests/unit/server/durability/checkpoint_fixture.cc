#include "tests/unit/server/durability/checkpoint_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "server/durability/checkpoint_files.h"
#include "server/shard/placement.h"

namespace psgd {
namespace {

constexpr int64_t kSliceBytes = 4096;
constexpr uint32_t kWorkersWithResiduals[] = {0, 2};

std::string MakeTemporaryFolder() {
  std::string pattern = ::testing::TempDir() + "psgd-checkpoint-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  return pattern;
}

Bytes ArrayOf(uint64_t checkpoint, int array, const SliceSpec& spec) {
  std::vector<float> values(spec.count());
  for (uint32_t i = 0; i < spec.count(); ++i) {
    values[i] = TestValue(checkpoint, array, spec.parameter(), spec.offset() + i);
  }
  return Bytes::CopyOf(AsBytes(values));
}

// Only the first parameter has residuals, like a tensor with a lossy codec.
bool HasResidual(uint32_t parameter) { return parameter == 0; }

}  // namespace

ModelSpec TestModel() {
  ModelSpec model;
  model.set_name("test");
  const auto add = [&](const char* name, std::vector<int64_t> shape, ParameterSpec::Role role) {
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name(name);
    parameter->mutable_shape()->Add(shape.begin(), shape.end());
    parameter->set_role(role);
  };
  add("fc1.weight", {100, 101}, ParameterSpec::TRAINED);
  add("fc1.bias", {100}, ParameterSpec::TRAINED);
  add("bn.mean", {33}, ParameterSpec::STATISTIC);
  add("fc2.weight", {10, 200}, ParameterSpec::TRAINED);
  return model;
}

float TestValue(uint64_t checkpoint, int array, uint32_t parameter, uint64_t element) {
  return static_cast<float>(checkpoint * 1000000 + array * 100000 + parameter * 20000 + element);
}

Placement TestPlacement(int shards) { return PlaceSlices(TestModel(), shards, kSliceBytes); }

std::vector<ShardSnapshot> TestSnapshots(uint64_t id, const Placement& placement, int shards) {
  const ModelSpec model = TestModel();
  std::vector<ShardSnapshot> snapshots(shards);
  for (int i = 0; i < placement.slices_size(); ++i) {
    const SliceSpec& spec = placement.slices(i);
    const ParameterSpec& parameter = model.parameters(static_cast<int>(spec.parameter()));
    ShardSnapshot& shard = snapshots[spec.shard()];
    SliceSnapshot slice;
    slice.id = static_cast<uint32_t>(i);
    slice.spec = spec;
    slice.parameter = parameter.name();
    slice.version = id * 10 + spec.parameter();
    slice.steps = id * 5 + spec.parameter();
    slice.weights = ArrayOf(id, 0, spec);
    if (parameter.role() == ParameterSpec::TRAINED) {
      slice.states.emplace_back("momentum_buffer", ArrayOf(id, 1, spec));
    }
    shard.slices.push_back(std::move(slice));
    if (!HasResidual(spec.parameter())) continue;
    for (uint32_t worker : kWorkersWithResiduals) {
      shard.residuals[worker].emplace_back(static_cast<uint32_t>(i),
                                           ArrayOf(id, 10 + static_cast<int>(worker), spec));
    }
  }
  return snapshots;
}

CheckpointManifest TestManifest(uint64_t id, const Placement& placement) {
  CheckpointManifest manifest;
  manifest.set_id(id);
  manifest.mutable_config()->set_name("test-run");
  *manifest.mutable_model() = TestModel();
  *manifest.mutable_placement() = placement;
  manifest.set_clock(id * 100);
  manifest.set_epoch(static_cast<uint32_t>(id));
  for (uint32_t batch : {3, 1, 4, 1, 5}) manifest.add_remaining()->set_first(batch);
  manifest.mutable_hyper()->set_learning_rate(0.25);
  manifest.add_evaluations()->set_accuracy(0.5);
  return manifest;
}

void ExpectIsCheckpoint(const LoadedCheckpoint& loaded, uint64_t id, int shards) {
  EXPECT_EQ(loaded.manifest().id(), id);
  EXPECT_EQ(loaded.manifest().clock(), id * 100);
  EXPECT_EQ(loaded.manifest().remaining_size(), 5);
  const ModelSpec model = TestModel();
  const auto expect = [&](const Bytes& bytes, int array, const SliceSpec& spec) {
    ASSERT_EQ(bytes.size(), spec.count() * sizeof(float));
    EXPECT_EQ(0, std::memcmp(bytes.data(), ArrayOf(id, array, spec).data(), bytes.size()))
        << "array " << array << " of parameter " << spec.parameter();
  };
  const Placement placement = TestPlacement(shards);
  for (const SliceSpec& spec : placement.slices()) {
    const ParameterSpec& parameter = model.parameters(static_cast<int>(spec.parameter()));
    auto contents = loaded.Extract(parameter.name(), spec.offset(), spec.count());
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->version, id * 10 + spec.parameter());
    EXPECT_EQ(contents->steps, id * 5 + spec.parameter());
    expect(contents->weights, 0, spec);
    const bool trained = parameter.role() == ParameterSpec::TRAINED;
    ASSERT_EQ(contents->states.size(), trained ? 1u : 0u);
    if (trained) {
      EXPECT_EQ(contents->states[0].first, "momentum_buffer");
      expect(contents->states[0].second, 1, spec);
    }
    ASSERT_EQ(contents->residuals.size(), HasResidual(spec.parameter()) ? 2u : 0u);
    for (const auto& [worker, values] : contents->residuals) {
      expect(values, 10 + static_cast<int>(worker), spec);
    }
  }
}

CheckpointTest::CheckpointTest() : root_(MakeTemporaryFolder()), store_(root_) {}

CheckpointTest::~CheckpointTest() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

CheckpointManifest CheckpointTest::WriteUnsealed(uint64_t id, int shards) {
  const Placement placement = TestPlacement(shards);
  CheckpointManifest manifest = TestManifest(id, placement);
  EXPECT_TRUE(store_.Begin(id).ok());
  const auto snapshots = TestSnapshots(id, placement, shards);
  // Receipts come in the order in which shards finish.
  for (int shard = shards - 1; shard >= 0; --shard) {
    auto receipt = store_.WriteShard(id, static_cast<uint32_t>(shard), snapshots[shard]);
    EXPECT_TRUE(receipt.ok()) << receipt.status();
    if (receipt.ok()) *manifest.add_shards() = *std::move(receipt);
  }
  return manifest;
}

void CheckpointTest::Write(uint64_t id, int shards) {
  const absl::Status sealed = store_.Seal(WriteUnsealed(id, shards));
  EXPECT_TRUE(sealed.ok()) << sealed;
}

std::vector<std::string> CheckpointTest::FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace psgd
