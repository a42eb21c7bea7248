// Any calls to a coordinator. Refusals have a reason, models that do not fit are never made, shards
// carry out the coordinator's orders, and its saved record is read back unchanged. With
// --control=brought the first worker brings the model. An input is a row of
//   u8 kind, u16 bytes of the request, request
#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <memory>
#include <vector>

#include "server/coordinator/coordinator_core.h"
#include "server/shard/placement.h"
#include "server/shard/shard_core.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input_cursor.h"

namespace psgd::fuzz {
namespace {

constexpr size_t kMostCalls = 64;
constexpr uint64_t kMemory = 1 << 20;
constexpr int kShards = 2;

bool workers_bring_the_model = false;

CoordinatorOptions Options() {
  CoordinatorOptions options;
  options.config.set_name("small");
  options.config.mutable_cluster()->set_workers(2);
  options.config.mutable_cluster()->set_shards(kShards);
  options.config.mutable_cluster()->set_segment(4);
  options.config.mutable_cluster()->set_lease(10'000);
  options.config.mutable_train()->set_epochs(3);
  options.config.mutable_durability()->mutable_checkpoint()->set_steps(2);
  options.config.mutable_optimizer()->mutable_adam()->set_learning_rate(0.1);
  if (workers_bring_the_model) options.config.mutable_model()->mutable_client();
  options.memory = kMemory;
  return options;
}

class SmallRun {
 public:
  SmallRun() : core_(std::make_unique<CoordinatorCore>(Options())) {
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      shards_.push_back(
          std::make_unique<ShardCore>(ShardOptions{.shard = shard, .config = Options().config}));
    }
  }

  void Call(uint8_t kind, std::span<const uint8_t> request) {
    Effects effects;
    now_ += std::chrono::milliseconds(kind);
    switch (kind % 13) {
      case 0:
        Check(core_->Join(Read<JoinRequest>(request), now_, &effects).status());
        break;
      case 1:
        Check(core_->Register(Read<RegisterRequest>(request), {"a", "b"}, now_, &effects).status());
        break;
      case 2:
        Check(core_->NextSegment(Read<NextSegmentRequest>(request), now_, &effects).status());
        break;
      case 3:
        Check(core_->Evaluated(Read<EvaluatedRequest>(request), now_, &effects));
        break;
      case 4:
        Check(core_->Heartbeat(Read<HeartbeatRequest>(request), now_).status());
        break;
      case 5:
        Check(core_->Leave(Read<LeaveRequest>(request), now_, &effects));
        break;
      case 6:
        core_->Drain(Read<DrainRequest>(request), &effects);
        break;
      case 7:
        Check(core_->SetHyper(Read<SetHyperRequest>(request), &effects).status());
        break;
      case 8:
        Check(core_->RequestCheckpoint().status());
        break;
      case 9:
        Check(core_->DrainWorker(Read<DrainRequest>(request).worker(), &effects));
        break;
      case 10:
        core_->Quarantine({Read<LeaveRequest>(request).key(), "bad pushes"}, &effects);
        break;
      case 11:
        Check(core_->GiveWeights(Read<GiveWeightsRequest>(request), now_));
        break;
      default:
        now_ += std::chrono::seconds(6);
        core_->Tick(now_, &effects);
    }
    CarryOut(effects);
    if (core_->checkpoint_under_way() && kind >= 128) {
      Effects more;
      core_->CheckpointDone(core_->checkpoint_under_way()->checkpoint, absl::OkStatus(), &more);
      CarryOut(more);
    }
    Require(core_->Status(now_).IsInitialized(), "no status");
    if (core_->model() != nullptr) ReadBack();
  }

 private:
  template <typename Request>
  static Request Read(std::span<const uint8_t> bytes) {
    Request request;
    const bool read = request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
    return read ? request : Request();
  }

  static void Check(const absl::Status& status) {
    Require(status.ok() || !status.message().empty(), "refused without a reason");
  }

  void CarryOut(const Effects& effects) {
    for (const ShardCommand& command : effects.commands) {
      if (const auto* install = std::get_if<InstallModel>(&command)) {
        uint64_t elements = 0;
        for (const ParameterSpec& parameter : install->model->parameters())
          elements += ElementsOf(parameter);
        Require(elements * 3 * sizeof(float) <= kMemory, "a model that does not fit");
      }
      for (const auto& shard : shards_) {
        Outbox out;
        Require(shard->Execute(command, &out).ok(), "a shard cannot do what it was ordered");
      }
    }
  }

  void ReadBack() {
    CoordinatorRecord before = core_->Save(now_);
    auto again = std::make_unique<CoordinatorCore>(Options());
    again->Restore(before, now_);
    CoordinatorRecord after = again->Save(now_);
    if (before.started() && !before.ended()) before.mutable_total()->set_counts_incomplete(true);
    before.clear_seconds_trained();  // counted in nanoseconds, but written as a number of seconds
    after.clear_seconds_trained();
    google::protobuf::util::DefaultFieldComparator values;
    values.set_treat_nan_as_equal(true);  // workers may report any loss
    google::protobuf::util::MessageDifferencer differencer;
    differencer.set_field_comparator(&values);
    Require(differencer.Compare(before, after), "its record is not read back as it was");
    core_ = std::move(again);
  }

  std::unique_ptr<CoordinatorCore> core_;
  std::vector<std::unique_ptr<ShardCore>> shards_;
  Time now_ = Time(std::chrono::seconds(1));
};

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  psgd::fuzz::workers_bring_the_model = psgd::fuzz::Variant("control", *argc, *argv) == "brought";
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  psgd::fuzz::InputCursor input({data, size});
  psgd::fuzz::SmallRun run;
  for (size_t i = 0; i < psgd::fuzz::kMostCalls && !input.AtEnd(); ++i) {
    const uint8_t kind = input.Take<uint8_t>();
    const auto bytes = input.Take<uint16_t>();
    run.Call(kind, input.TakeBytes(bytes));
  }
  return 0;
}
