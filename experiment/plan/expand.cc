#include "experiment/plan/expand.h"

#include <google/protobuf/util/message_differencer.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "experiment/config/config_yaml.h"
#include "experiment/config/flat_config.h"
#include "experiment/plan/dense_twin.h"
#include "experiment/plan/random_draws.h"
#include "experiment/plan/sweep_yaml.h"

namespace psgd {
namespace {

constexpr size_t kMostRuns = 100000;
constexpr size_t kMostErrors = 5;
constexpr char kTwinLabel[] = "dense, synchronous";

// Settings that are applied together: a point of the grid, an entry of the list, or a draw.
struct Choice {
  AxisValues axes;
  std::vector<std::pair<std::string, std::string>> settings;
  bool in_twin = true;  // a twin keeps these settings, except those about updates
};

using Choices = std::vector<Choice>;

Choices Times(const Choices& first, const Choices& second) {
  Choices product;
  for (const Choice& a : first) {
    for (const Choice& b : second) {
      Choice both = a;
      both.axes.insert(both.axes.end(), b.axes.begin(), b.axes.end());
      both.settings.insert(both.settings.end(), b.settings.begin(), b.settings.end());
      product.push_back(std::move(both));
    }
  }
  return product;
}

Choices OfAxis(const SweepAxis& axis) {
  Choices choices;
  for (const std::string& value : axis.values()) {
    Choice choice;
    choice.settings = {{axis.key(), value}};
    // An axis with one value distinguishes no runs.
    if (axis.values_size() > 1) choice.axes = {{axis.key(), ReadableSetting(value)}};
    choices.push_back(std::move(choice));
  }
  return choices;
}

// True if the entry is a way to send updates. Its other settings, such as another momentum, belong
// to that way and are not in the twin.
bool BelongsToUpdates(const SweepVariant& variant) {
  return std::any_of(variant.settings().begin(), variant.settings().end(),
                     [](const SweepSetting& setting) { return IsAboutUpdates(setting.key()); });
}

Choices OfList(const Sweep& sweep) {
  Choices choices;
  for (const SweepVariant& variant : sweep.list()) {
    Choice choice;
    for (const SweepSetting& setting : variant.settings()) {
      choice.settings.emplace_back(setting.key(), setting.value());
    }
    choice.axes = {{"way", NameOf(variant)}};
    choice.in_twin = !BelongsToUpdates(variant);
    choices.push_back(std::move(choice));
  }
  return choices;
}

Choices OfRandom(const SweepRandom& random) {
  Choices choices;
  for (int i = 0; i < random.count(); ++i) {
    Choice choice;
    for (const SweepDraw& draw : random.keys()) {
      const std::string value = DrawValue(draw, random.seed(), i);
      choice.settings.emplace_back(draw.key(), value);
      choice.axes.emplace_back(draw.key(), ReadableSetting(value));
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

// The common prefix of two keys: "optimizer" for optimizer.sgd.momentum and optimizer.adam.
std::string CommonKey(const std::string& a, const std::string& b) {
  const std::vector<std::string> first = absl::StrSplit(a, '.'), second = absl::StrSplit(b, '.');
  const auto end = std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first;
  return absl::StrJoin(first.begin(), end, ".");
}

// Checks whether a later key undoes what one key set.
class Overlay {
 public:
  absl::Status Set(const std::pair<std::string, std::string>& setting) {
    return ApplySetting(setting.first, setting.second, &config_, &launch_);
  }
  // True if everything that this overlay sets has the same value there.
  bool StandsIn(const Config& config, const SweepLaunch& launch) const {
    google::protobuf::util::MessageDifferencer differences;
    differences.set_scope(google::protobuf::util::MessageDifferencer::PARTIAL);
    return differences.Compare(config_, config) && differences.Compare(launch_, launch);
  }
  bool StandsIn(const Overlay& other) const { return StandsIn(other.config_, other.launch_); }

 private:
  Config config_;
  SweepLaunch launch_;
};

// A key can undo another key that contains or excludes it, as optimizer.sgd.momentum and
// optimizer.adam. The run's name would then be wrong.
absl::Status CheckNothingIsUndone(const Choice& choice, const Config& config,
                                  const SweepLaunch& launch) {
  for (auto setting = choice.settings.begin(); setting != choice.settings.end(); ++setting) {
    if (IsOption(setting->first)) continue;  // each is another
    Overlay alone;
    PSGD_RETURN_IF_ERROR(alone.Set(*setting));
    if (alone.StandsIn(config, launch)) continue;
    for (auto later = setting + 1; later != choice.settings.end(); ++later) {
      Overlay both = alone;
      PSGD_RETURN_IF_ERROR(both.Set(*later));
      if (alone.StandsIn(both)) continue;
      return InvalidArgumentError(AxesLabel(choice.axes), ": ", later->first, "=", later->second,
                                  " undoes ", setting->first, "=", setting->second,
                                  "; leave one of them out, or write both as one value of ",
                                  CommonKey(setting->first, later->first));
    }
  }
  return absl::OkStatus();
}

// A base with other keys of `local` need not fit each number of steps that a sweep tries.
void FitLocal(const Config& base, const Choice& choice, Config* config) {
  const auto sets = [&](absl::string_view key) {
    return std::ranges::any_of(choice.settings,
                               [&](const auto& setting) { return setting.first == key; });
  };
  LocalConfig local = config->local();
  if (!(sets("local.steps") || sets("local")) || local.steps() == 0) return;
  const LocalConfig& before = base.local();
  // It is of auto.
  if (!sets("local.most") && before.has_most() && local.most() == before.most()) local.clear_most();
  if (local.steps() == 1) {
    // The step is one that the base's workers take between two exchanges.
    if (before.has_steps()) local.set_steps(before.steps());
    if (!local.has_optimizer() && before.has_optimizer())
      *local.mutable_optimizer() = before.optimizer();
    if (!local.has_schedule() && before.has_schedule())
      *local.mutable_schedule() = before.schedule();
    *config->mutable_local() = local;
    *config = ExchangeInEachStep(std::move(*config));
    return;
  }
  if (config->has_local()) *config->mutable_local() = local;
}

// Without defaults.
absl::StatusOr<PlannedRun> Overlaid(const Sweep& sweep, const Config& base, const Choice& choice) {
  PlannedRun run;
  run.axes = choice.axes;
  run.config = base;
  run.launch = sweep.launch();
  for (const auto& [key, value] : choice.settings) {
    if (!IsOption(key)) PSGD_RETURN_IF_ERROR(ApplySetting(key, value, &run.config, &run.launch));
  }
  PSGD_RETURN_IF_ERROR(CheckNothingIsUndone(choice, run.config, run.launch));
  // They change whichever command the other settings chose.
  for (const auto& [key, value] : choice.settings) {
    if (!IsOption(key)) continue;
    if (run.launch.command().empty()) {
      return InvalidArgumentError(
          key,
          " is an option of the program that workers run, and the sweep names none; say "
          "launch: {command: [python3, train.py]}, or name a key of a config");
    }
    PSGD_RETURN_IF_ERROR(ApplySetting(key, value, &run.config, &run.launch));
  }
  return run;
}

absl::StatusOr<PlannedRun> Plan(const Sweep& sweep, const Config& base, const Choice& choice) {
  PSGD_ASSIGN_OR_RETURN(PlannedRun run, Overlaid(sweep, base, choice));
  FitLocal(base, choice, &run.config);
  run.config = ResolveDefaults(std::move(run.config));
  run.label = run.axes.empty() ? "base" : AxesLabel(run.axes);
  return run;
}

absl::StatusOr<PlannedRun> PlanTwin(const Sweep& sweep, const Config& base, const Choice& choice,
                                    const Choices& list) {
  Choice kept;
  if (sweep.twin() == Sweep::EACH) {
    for (const auto& setting : choice.settings) {
      const bool dropped = std::any_of(list.begin(), list.end(), [&](const Choice& entry) {
        return !entry.in_twin &&
               std::count(entry.settings.begin(), entry.settings.end(), setting) > 0;
      });
      if (!dropped && !IsAboutUpdates(setting.first)) kept.settings.push_back(setting);
    }
    for (const auto& axis : choice.axes) {
      const bool varies = std::ranges::any_of(
          kept.settings, [&](const auto& setting) { return setting.first == axis.first; });
      const bool way = axis.first == "way" && !kept.settings.empty() &&
                       std::any_of(list.begin(), list.end(), [&](const Choice& entry) {
                         return entry.in_twin && entry.axes.front() == axis;
                       });
      if (varies || way) kept.axes.push_back(axis);
    }
  }
  PSGD_ASSIGN_OR_RETURN(PlannedRun twin, Overlaid(sweep, base, kept));
  twin.config = DenseTwin(std::move(twin.config));
  twin.label =
      twin.axes.empty() ? kTwinLabel : absl::StrCat(kTwinLabel, ", ", AxesLabel(twin.axes));
  twin.twin = true;
  return twin;
}

// Gives runs their names and ids, drops duplicates, and collects invalid runs.
class Collector {
 public:
  explicit Collector(const Sweep& sweep) : sweep_(sweep) {}

  // Returns the run's id. `asked`: the sweep asks for the run; otherwise it is only a twin.
  std::string Add(PlannedRun run, bool asked) {
    // The name does not change what the run computes.
    run.config.set_name(sweep_.name());
    run.id = RunId(run.config, run.launch);
    const std::string id = run.id;
    const auto [place, is_new] = index_.emplace(id, plan_.runs.size());
    if (asked) ++asked_;
    const bool differs = asked && ids_asked_.insert(id).second;
    if (!is_new) {
      PlannedRun& first = plan_.runs[place->second];
      if (asked && !differs && example_.empty() && first.label != run.label) {
        example_ = absl::StrCat(", as \"", run.label, "\" and \"", first.label, "\"");
      }
      if (!asked || !first.twin) return id;
      // A run that the sweep asks for keeps its own name and is also the twin.
      first.label = run.label;
      first.axes = run.axes;
      return id;
    }
    const absl::Status valid = ValidateConfig(run.config);
    if (!valid.ok() && ++times_[std::string(valid.message())] == 1) {
      errors_.push_back(absl::StrCat(run.label, ": ", valid.message()));
    }
    plan_.runs.push_back(std::move(run));
    return id;
  }

  absl::StatusOr<RunPlan> Take() {
    if (errors_.empty()) {
      if (ids_asked_.size() < asked_) {
        plan_.notes.push_back(absl::StrCat(asked_, " runs are asked for, ", ids_asked_.size(),
                                           ids_asked_.size() == 1 ? " differs" : " differ",
                                           ": the others would compute the same again", example_));
      }
      return std::move(plan_);
    }
    const size_t shown = std::min(errors_.size(), kMostErrors);
    size_t bad = 0;
    for (const auto& [error, times] : times_) bad += times;
    return InvalidArgumentError(
        bad, " of the ", plan_.runs.size(), " runs cannot be:\n  ",
        absl::StrJoin(errors_.begin(), errors_.begin() + static_cast<ptrdiff_t>(shown), "\n  "),
        shown < errors_.size() ? "\n  and so on" : "");
  }

 private:
  const Sweep& sweep_;
  RunPlan plan_;
  std::map<std::string, size_t> index_;
  size_t asked_ = 0;
  std::set<std::string> ids_asked_;
  std::string example_;                  // a run with two names
  std::map<std::string, size_t> times_;  // how often each error occurred
  std::vector<std::string> errors_;      // the first of each error
};

size_t CountOf(const Sweep& sweep) {
  size_t count = std::max(1, sweep.list_size());
  for (const SweepAxis& axis : sweep.grid()) {
    count *= static_cast<size_t>(axis.values_size());
    if (count > kMostRuns) return count;
  }
  if (sweep.has_random()) count *= static_cast<size_t>(sweep.random().count());
  return count * static_cast<size_t>(sweep.repeat().seeds());
}

}  // namespace

std::string PlannedRun::LabelWithSeed() const {
  return absl::StrCat(label, label.empty() ? "seed " : ", seed ", config.seed());
}

absl::StatusOr<Config> BaseConfig(const Sweep& sweep, const std::string& sweep_file) {
  switch (sweep.base().source_case()) {
    case SweepBase::kConfig:
      return sweep.base().config();
    case SweepBase::kFile: {
      const std::filesystem::path beside = std::filesystem::path(sweep_file).parent_path();
      return LoadConfig((beside / sweep.base().file()).lexically_normal().string());
    }
    case SweepBase::SOURCE_NOT_SET:
      break;
  }
  return InvalidArgumentError(
      sweep_file, ": no base; say base: FILE.yaml, beside this file, or base: {model: ...}");
}

std::string RunId(const Config& config, const SweepLaunch& launch) {
  std::string text;
  for (const auto& [key, value] : Flatten(config, /*with_defaults=*/false)) {
    if (key != "name") absl::StrAppend(&text, key, "=", value, "\n");
  }
  for (const auto& [key, value] : Flatten(launch, /*with_defaults=*/false)) {
    absl::StrAppend(&text, "launch.", key, "=", value, "\n");
  }
  return absl::StrFormat("%016x", XXH3_64bits(text.data(), text.size())).substr(0, 12);
}

std::string ReadableSetting(const std::string& value) {
  const std::string words =
      absl::StrReplaceAll(value, {{"{", " "}, {"}", " "}, {":", " "}, {"\"", ""}, {",", " "}});
  const std::vector<std::string> parts = absl::StrSplit(words, ' ', absl::SkipEmpty());
  return absl::StrJoin(parts, " ");
}

std::string ShortKey(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string AxesLabel(const AxisValues& axes) {
  return absl::StrJoin(axes, ", ", [](std::string* out, const auto& axis) {
    absl::StrAppend(out, axis.first == "way" ? "" : absl::StrCat(ShortKey(axis.first), " "),
                    axis.second);
  });
}

std::string NameOf(const SweepVariant& variant) {
  if (variant.has_name()) return variant.name();
  AxisValues values;
  for (const SweepSetting& setting : variant.settings()) {
    values.emplace_back(setting.key(), ReadableSetting(setting.value()));
  }
  return AxesLabel(values);
}

absl::StatusOr<RunPlan> ExpandSweep(const Sweep& sweep, const Config& base) {
  if (const size_t count = CountOf(sweep); count > kMostRuns) {
    return InvalidArgumentError("more than ", kMostRuns, " runs; does a list hold too much?");
  }
  const Choices list = OfList(sweep);
  Choices choices{Choice()};
  if (!list.empty()) choices = Times(choices, list);
  for (const SweepAxis& axis : sweep.grid()) choices = Times(choices, OfAxis(axis));
  if (sweep.has_random()) choices = Times(choices, OfRandom(sweep.random()));

  Collector collector(sweep);
  for (int seed = 0; seed < sweep.repeat().seeds(); ++seed) {
    std::vector<PlannedRun> runs;
    for (const Choice& choice : choices) {
      PSGD_ASSIGN_OR_RETURN(PlannedRun run, Plan(sweep, base, choice));
      run.config.set_seed(base.seed() + static_cast<uint64_t>(seed));
      if (sweep.twin() != Sweep::NONE) {
        PSGD_ASSIGN_OR_RETURN(PlannedRun twin, PlanTwin(sweep, base, choice, list));
        twin.config.set_seed(run.config.seed());
        run.twin_id = collector.Add(std::move(twin), /*asked=*/false);
      }
      run.twin = sweep.twin() != Sweep::NONE && IsDenseSynchronous(run.config);
      runs.push_back(std::move(run));
    }
    for (PlannedRun& run : runs) collector.Add(std::move(run), /*asked=*/true);
  }
  return collector.Take();
}

}  // namespace psgd
