#include "bench/journal_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "bench/machine_limits.h"
#include "common/clock.h"
#include "common/files.h"
#include "compression/codec.h"
#include "server/durability/durable_shard.h"
#include "server/durability/rocks_journal.h"
#include "server/shard/placement.h"

namespace psgd {
namespace {

constexpr uint32_t kElements = 1u << 20;  // of the one slice

Config MakeConfig() {
  Config config;
  config.mutable_consistency()->set_staleness(-1);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.01);
  config.mutable_train()->set_epochs(1);
  return config;
}

struct Level {
  const char* name;
  bool journal;
  bool sync;
};
constexpr Level kLevels[] = {
    {"memory", false, false}, {"journal", true, false}, {"fsync", true, true}};

class Bench {
 public:
  Bench(const JournalBenchOptions& options, const Level& level, const CodecConfig& codec,
        std::string name)
      : options_(options), level_(level), codec_(codec), name_(std::move(name)) {}

  absl::StatusOr<BenchRow> Run() {
    PSGD_RETURN_IF_ERROR(MakePayload());
    PSGD_ASSIGN_OR_RETURN(DurableShardOptions shard, ShardOptionsFor(/*again=*/false));
    shard_ = std::make_unique<DurableShard>(std::move(shard));
    PSGD_RETURN_IF_ERROR(Begin());
    const Time start = SteadyNow();
    uint64_t pushes = 0;
    while (Seconds(SteadyNow() - start) < options_.seconds) {
      PSGD_RETURN_IF_ERROR(PushGroup());
      pushes += options_.group;
    }
    const double seconds = Seconds(SteadyNow() - start);
    BenchRow row;
    row.bench = "journal";
    row.name = absl::StrCat(level_.name, "/", name_);
    row.gbps = static_cast<double>(pushes * payload_.size()) / seconds * 1e-9;
    PSGD_ASSIGN_OR_RETURN(row.limit_gbps, Limit());
    row.ratio = row.gbps / row.limit_gbps;
    row.extra["pushes_per_second"] = static_cast<double>(pushes) / seconds;
    row.extra["group"] = options_.group;
    PSGD_ASSIGN_OR_RETURN(row.verified, Verify());
    return row;
  }

 private:
  std::string Folder() const { return options_.folder + "/psgd-bench-journal/shard"; }

  absl::Status MakePayload() {
    PSGD_ASSIGN_OR_RETURN(const auto codec, MakeCodec(codec_));
    std::vector<float> gradient(kElements);
    for (uint32_t i = 0; i < kElements; ++i) {
      gradient[i] = static_cast<float>(i * 2654435761u % 1000) * 1e-6f - 5e-4f;
    }
    std::vector<std::byte> bytes;
    EncodeInput input;
    input.gradient = gradient;
    codec->NewEncoder({.elements = kElements})->Encode(input, &bytes);
    payload_ = Bytes::Adopt(std::move(bytes));
    codec_id_ = codec->id();
    return absl::OkStatus();
  }

  absl::StatusOr<DurableShardOptions> ShardOptionsFor(bool again) const {
    DurableShardOptions options;
    options.shard.config = MakeConfig();
    options.image_after = uint64_t{1} << 40;
    if (!level_.journal) return options;
    const RocksJournalOptions journal = {Folder(), 0, level_.sync};
    PSGD_ASSIGN_OR_RETURN(options.journal,
                          again ? RocksJournal::Open(journal) : RocksJournal::Create(journal));
    return options;
  }

  absl::Status Begin() {
    ModelSpec model;
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name("w");
    parameter->add_shape(kElements);
    parameter->mutable_initializer()->mutable_constant()->set_value(1);
    HyperParameters hyper;
    hyper.set_learning_rate(0.01);
    const Placement placement = PlaceSlices(model, 1, kElements * sizeof(float));
    PSGD_RETURN_IF_ERROR(
        shard_->Execute(InstallModel{std::make_shared<ModelSpec>(model),
                                     std::make_shared<Placement>(placement), nullptr, hyper},
                        1));
    AdmitWorker admit;
    admit.key.set_incarnation(1);
    PSGD_RETURN_IF_ERROR(shard_->Execute(admit, 2));
    BeginSegment begin;
    begin.segment.set_clocks(1u << 30);
    begin.segment.add_workers(0);
    return shard_->Execute(begin, 3);
  }

  absl::Status PushGroup() {
    for (int i = 0; i < options_.group; ++i) {
      Message message;
      message.header.set_incarnation(1);
      Push* push = message.header.mutable_push();
      push->set_seq(++seq_);
      push->set_clock(seq_);
      push->set_end_of_clock(true);
      push->add_parts()->set_codec(codec_id_);
      message.payloads.push_back(payload_);
      shard_->OnMessage(0, std::move(message));
    }
    Outbox out;
    std::vector<JournalEntry> written;
    shard_->Commit(&out, &out, &written);
    if (!shard_->stalled().ok()) return shard_->stalled();
    for (const Outgoing& outgoing : out) {
      if (!outgoing.message.header.has_push_ack()) {
        return absl::InternalError(outgoing.message.header.ShortDebugString());
      }
    }
    return absl::OkStatus();
  }

  // Measures plain writes of the same groups, synced as the level does.
  absl::StatusOr<double> Limit() const {
    if (!level_.journal) return MeasureMemcpy();
    const std::string path = options_.folder + "/psgd-bench-plain";
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return FileError("open", path, errno);
    const std::vector<std::byte> group(payload_.size() * options_.group, std::byte{1});
    double bytes = 0;
    absl::Status failed;
    const Time start = SteadyNow();
    while (failed.ok() && Seconds(SteadyNow() - start) < options_.seconds / 2) {
      if (write(file, group.data(), group.size()) != static_cast<ssize_t>(group.size()) ||
          (level_.sync && fdatasync(file) != 0)) {
        failed = FileError("write", path, errno);
      }
      bytes += static_cast<double>(group.size());
    }
    const double seconds = Seconds(SteadyNow() - start);
    close(file);
    unlink(path.c_str());
    if (!failed.ok()) return failed;
    return bytes / seconds * 1e-9;
  }

  absl::StatusOr<bool> Verify() {
    if (!level_.journal) return true;
    const auto live = shard_->core().ShareWeights();
    const Bytes weights = Bytes::CopyOf(live[0].second.span());
    shard_.reset();
    PSGD_ASSIGN_OR_RETURN(DurableShardOptions options, ShardOptionsFor(/*again=*/true));
    std::vector<std::string> notes;
    PSGD_ASSIGN_OR_RETURN(const auto again, DurableShard::Recover(std::move(options), &notes));
    const auto recovered = again->core().ShareWeights();
    return std::memcmp(weights.data(), recovered[0].second.data(), weights.size()) == 0;
  }

  const JournalBenchOptions& options_;
  const Level& level_;
  const CodecConfig codec_;
  const std::string name_;
  Bytes payload_;
  CodecId codec_id_ = CODEC_NONE;
  std::unique_ptr<DurableShard> shard_;
  uint64_t seq_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<BenchRow>> RunJournalBench(const JournalBenchOptions& options) {
  CodecConfig sparse, dense;
  sparse.mutable_topk()->set_density(0.002);
  dense.mutable_none();
  std::vector<BenchRow> rows;
  for (const Level& level : kLevels) {
    for (const auto& [codec, name] : {std::pair(sparse, "sparse"), std::pair(dense, "dense")}) {
      auto row = Bench(options, level, codec, name).Run();
      std::error_code ignored;
      std::filesystem::remove_all(options.folder + "/psgd-bench-journal", ignored);
      if (!row.ok()) return Annotate(row.status(), absl::StrCat(level.name, "/", name));
      rows.push_back(*std::move(row));
    }
  }
  return rows;
}

}  // namespace psgd
