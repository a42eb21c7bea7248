#include "bench/apply_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "bench/machine_limits.h"
#include "bench/optimizers.h"
#include "bench/pinned_threads.h"
#include "common/cores.h"
#include "common/philox.h"
#include "compression/codec.h"
#include "server/shard/slice_state.h"
#include "tests/unit/optimizers/reference_optimizers.h"

namespace psgd {
namespace {

constexpr double kLearningRate = 0.01;
constexpr int kCheckedPasses = 3;

// One codec's payloads, one per slice, each in its own memory.
struct Payloads {
  std::string name;
  std::unique_ptr<Codec> codec;
  std::vector<std::vector<std::byte>> bytes;
};

absl::StatusOr<Payloads> Encode(const CodecConfig& config, const ApplyBenchOptions& options) {
  Payloads payloads;
  PSGD_ASSIGN_OR_RETURN(payloads.codec, MakeCodec(config));
  payloads.name = std::string(payloads.codec->name());
  std::vector<float> gradient(options.slice);
  for (int s = 0; s < options.slices; ++s) {
    RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), static_cast<uint64_t>(s));
    for (float& value : gradient) value = random.NextUnit() - 0.5f;
    const auto encoder = payloads.codec->NewEncoder({.elements = options.slice});
    payloads.bytes.emplace_back();
    EncodeInput input;
    input.gradient = gradient;
    encoder->Encode(input, &payloads.bytes.back());
  }
  return payloads;
}

// One optimizer and the payloads of one codec, over the slices of one shard.
class Case {
 public:
  Case(const OptimizerConfig& config, const Payloads& payloads)
      : config_(config), payloads_(payloads), updater_(ConfigOf(config)) {}

  // Makes slices `first` to `last`, without the last.
  absl::Status Prepare(const ApplyBenchOptions& options, int first, int last) {
    first_ = static_cast<size_t>(first);
    ModelSpec model;
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name("weights");
    parameter->set_decay(true);
    parameter->add_shape(int64_t{options.slices} * options.slice);
    parameter->mutable_initializer()->mutable_uniform()->set_low(-1);
    parameter->mutable_initializer()->mutable_uniform()->set_high(1);
    for (int s = first; s < last; ++s) {
      SliceSpec spec;
      spec.set_offset(uint64_t{options.slice} * static_cast<uint64_t>(s));
      spec.set_count(options.slice);
      PSGD_ASSIGN_OR_RETURN(SliceState slice,
                            updater_.Make(static_cast<uint32_t>(s), spec, model, 1, nullptr));
      slices_.push_back(std::move(slice));
    }
    return absl::OkStatus();
  }

  // Checks every payload.
  absl::Status Open() {
    readers_.clear();
    for (size_t s = 0; s < slices_.size(); ++s) {
      PSGD_ASSIGN_OR_RETURN(auto reader,
                            payloads_.codec->Open(payloads_.bytes[first_ + s], slices_[s].shape));
      readers_.push_back(std::move(reader));
    }
    return absl::OkStatus();
  }

  // Applies every payload that was checked.
  void Apply() {
    for (size_t s = 0; s < slices_.size(); ++s) {
      Contribution contribution;
      contribution.reader = readers_[s].get();
      updater_.Apply(slices_[s], {&contribution, 1}, {kLearningRate, DecoupledDecay()});
    }
  }

  // Runs a few passes, then checks every element of the first slice against the formulas in double.
  absl::StatusOr<bool> Check() {
    SliceState& slice = slices_[0];
    const std::vector<float> before(slice.weights.read().begin(), slice.weights.read().end());
    std::vector<float> gradient(before.size());
    PSGD_ASSIGN_OR_RETURN(const auto reader,
                          payloads_.codec->Open(payloads_.bytes[first_], slice.shape));
    reader->AddBlock(1.0f, gradient);
    for (int pass = 0; pass < kCheckedPasses; ++pass) {
      PSGD_RETURN_IF_ERROR(Open());
      Apply();
    }
    std::vector<ReferenceElement> expected;
    for (const float weight : before) expected.push_back({.weight = weight});
    for (uint64_t t = 1; t <= kCheckedPasses; ++t) {
      ReferenceUpdate(config_, {kLearningRate, DecoupledDecay(), t}, gradient, expected);
    }
    for (size_t i = 0; i < before.size(); ++i) {
      if (!(std::abs(slice.weights.read()[i] - expected[i].weight) < 1e-5)) return false;
    }
    return true;
  }

  double ParameterBytes() const {
    return static_cast<double>(slices_.size() * slices_[0].weights.size() * sizeof(float));
  }
  // Returns the bytes that one pass must move between memory and core.
  double TrafficBytes() const {
    double payload = 0;
    for (size_t s = 0; s < slices_.size(); ++s)
      payload += static_cast<double>(payloads_.bytes[first_ + s].size());
    const auto optimizer = MakeOptimizer(config_);
    double touched = ParameterBytes();
    if (payloads_.codec->id() == CODEC_TOPK && optimizer->sparse()) touched *= SparseShare();
    return payload + touched * 2 * (1 + optimizer->state_arrays());
  }

 private:
  double DecoupledDecay() const {
    return config_.adamw().weight_decay() + config_.lamb().weight_decay();  // one is unset
  }
  static Config ConfigOf(const OptimizerConfig& optimizer) {
    Config config;
    *config.mutable_optimizer() = optimizer;
    return config;
  }

  // Returns the share of the slice's elements that are entries of the first payload.
  double SparseShare() const {
    const auto reader = payloads_.codec->Open(payloads_.bytes[first_], slices_[0].shape);
    if (!reader.ok()) return 1;
    uint32_t indices[256];
    float values[256];
    size_t entries = 0;
    while (const size_t n = (*reader)->NextEntries(indices, values)) entries += n;
    return static_cast<double>(entries) / static_cast<double>(slices_[0].weights.size());
  }

  const OptimizerConfig config_;
  const Payloads& payloads_;
  SliceUpdater updater_;
  size_t first_ = 0;  // of the payloads: the first slice's
  std::vector<SliceState> slices_;
  std::vector<std::unique_ptr<PayloadReader>> readers_;
};

// One Case a shard. Each works on the core of its shard.
class Shards {
 public:
  Shards(const NamedOptimizer& optimizer, const Payloads& payloads, int shards)
      : cases_(static_cast<size_t>(shards)) {
    for (auto& work : cases_) work = std::make_unique<Case>(optimizer.config, payloads);
  }

  absl::Status Prepare(const ApplyBenchOptions& options) {
    const auto first = [&](size_t shard) {
      return static_cast<int>(shard * static_cast<size_t>(options.slices) / cases_.size());
    };
    return OnEach([&](size_t i) { return cases_[i]->Prepare(options, first(i), first(i + 1)); })
        .status();
  }
  absl::StatusOr<double> Open() {
    return OnEach([&](size_t i) { return cases_[i]->Open(); });
  }
  absl::StatusOr<double> Apply() {
    return OnEach([&](size_t i) { return cases_[i]->Apply(), absl::OkStatus(); });
  }
  absl::StatusOr<bool> Check() {
    for (auto& work : cases_) {
      PSGD_ASSIGN_OR_RETURN(const bool right, work->Check());
      if (!right) return false;
    }
    return true;
  }

  double ParameterBytes() const { return Sum(&Case::ParameterBytes); }
  double TrafficBytes() const { return Sum(&Case::TrafficBytes); }

 private:
  // Returns the seconds that all take together.
  absl::StatusOr<double> OnEach(absl::FunctionRef<absl::Status(size_t)> work) {
    std::vector<absl::Status> statuses(cases_.size());
    const double seconds = OnPinnedThreads(static_cast<int>(cases_.size()), [&](int i) {
      statuses[static_cast<size_t>(i)] = work(static_cast<size_t>(i));
    });
    for (const absl::Status& status : statuses) PSGD_RETURN_IF_ERROR(status);
    return seconds;
  }
  double Sum(double (Case::*bytes)() const) const {
    double sum = 0;
    for (const auto& work : cases_) sum += ((*work).*bytes)();
    return sum;
  }

  std::vector<std::unique_ptr<Case>> cases_;
};

absl::StatusOr<BenchRow> Measure(const NamedOptimizer& optimizer, const Payloads& payloads,
                                 const ApplyBenchOptions& options) {
  BenchRow row;
  row.bench = "apply";
  row.name = absl::StrCat(optimizer.name, "/", payloads.name);
  Shards work(optimizer, payloads, options.shards);
  PSGD_RETURN_IF_ERROR(work.Prepare(options));
  PSGD_ASSIGN_OR_RETURN(row.verified, work.Check());
  if (!row.verified) return row;
  std::vector<double> open(options.repeats), apply(options.repeats);
  for (int i = 0; i < options.repeats; ++i) {
    PSGD_ASSIGN_OR_RETURN(open[i], work.Open());
    PSGD_ASSIGN_OR_RETURN(apply[i], work.Apply());
  }
  std::sort(open.begin(), open.end());
  std::sort(apply.begin(), apply.end());
  row.gbps = work.TrafficBytes() / apply[0] / 1e9;
  row.extra["median_gbps"] = work.TrafficBytes() / apply[apply.size() / 2] / 1e9;
  row.extra["parameter_gbps"] = work.ParameterBytes() / apply[0] / 1e9;
  row.extra["open_gbps"] = work.ParameterBytes() / open[0] / 1e9;
  return row;
}

}  // namespace

absl::StatusOr<std::vector<BenchRow>> RunApplyBench(const ApplyBenchOptions& options) {
  if (options.slices < 1 || options.repeats < 1 || options.slice < 1) {
    return absl::InvalidArgumentError("slice, slices and repeats must be at least 1");
  }
  const size_t cores = UsableCores().order.size();
  if (options.shards < 1 || static_cast<size_t>(options.shards) > cores ||
      options.shards > options.slices) {
    return InvalidArgumentError("--shards ", options.shards, ": a shard needs a core of its own ",
                                "and at least one slice; this process may use ", cores,
                                cores == 1 ? " core" : " cores", ", and there are ", options.slices,
                                " slices");
  }
  for (const std::string& name : options.optimizers)
    PSGD_RETURN_IF_ERROR(OptimizerNamed(name).status());
  CodecConfig none, topk;
  none.mutable_none();
  topk.mutable_topk()->set_density(options.density);
  PSGD_ASSIGN_OR_RETURN(const Payloads dense, Encode(none, options));
  PSGD_ASSIGN_OR_RETURN(const Payloads sparse, Encode(topk, options));

  // The limit is the best that the machine reaches in this run, so it is measured before and after.
  double limit = MeasureTriad(options.shards);
  std::vector<BenchRow> rows;
  for (const NamedOptimizer& optimizer : AllOptimizers()) {
    const auto& wanted = options.optimizers;
    if (!wanted.empty() && std::ranges::find(wanted, optimizer.name) == wanted.end()) {
      continue;
    }
    for (const Payloads* payloads : {&dense, &sparse}) {
      PSGD_ASSIGN_OR_RETURN(BenchRow row, Measure(optimizer, *payloads, options));
      rows.push_back(std::move(row));
    }
  }
  limit = std::max(limit, MeasureTriad(options.shards));
  for (BenchRow& row : rows) {
    row.limit_gbps = limit;
    row.ratio = row.gbps / limit;
  }
  return rows;
}

}  // namespace psgd
