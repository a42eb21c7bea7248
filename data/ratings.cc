#include "data/ratings.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/philox.h"
#include "data/lines.h"

namespace psgd {
namespace {

constexpr size_t kMostChoices = size_t{1} << 28;
constexpr int kDraws = 64;  // attempts; then an item is found by counting

struct Choice {
  int32_t user = 0;
  int32_t item = 0;
};

struct Choices {
  int32_t users = 0;
  int32_t items = 0;
  std::vector<std::vector<int32_t>> of_user;  // distinct, ascending, of both sets; never all items
};

// Choices and drawn negatives. Thread-safe: immutable.
class RatingsDataset final : public Dataset {
 public:
  RatingsDataset(std::shared_ptr<const Choices> choices, std::vector<Choice> chosen, int negatives,
                 PhiloxKey key, bool test)
      : choices_(std::move(choices)),
        chosen_(std::move(chosen)),
        group_(static_cast<size_t>(negatives) + 1),
        key_(key),
        test_(test) {}

  size_t size() const override { return chosen_.size() * group_; }
  SampleShape shape() const override {
    return {.classes = 2,
            .entries = 2,
            .vocabulary = choices_->users + choices_->items,
            .group = test_ ? static_cast<int>(group_) : 0};
  }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    const Choice& choice = chosen_[key.index / group_];
    const bool chosen = key.index % group_ == 0;
    sample.tokens[0] = choice.user;
    sample.tokens[1] = choices_->users + (chosen ? choice.item : Draw(key, choice.user));
    sample.values[0] = sample.values[1] = 1;
    sample.labels[0] = chosen ? 1 : 0;
    return absl::OkStatus();
  }

 private:
  int32_t Draw(const SampleKey& key, int32_t user) const {
    const auto& own = choices_->of_user[user];
    RandomStream random(key_, test_ ? key.index : key.index ^ uint64_t{key.epoch} << 40);
    for (int draw = 0; draw < kDraws; ++draw) {
      const auto item =
          static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(choices_->items)));
      if (!std::binary_search(own.begin(), own.end(), item)) return item;
    }
    // The user chose nearly all items: takes the item at this place among the others.
    const auto others = static_cast<uint32_t>(choices_->items) - static_cast<uint32_t>(own.size());
    auto item = static_cast<int32_t>(random.NextBelow(others));
    for (const int32_t chosen : own) item += chosen <= item ? 1 : 0;
    return item;
  }

  const std::shared_ptr<const Choices> choices_;
  const std::vector<Choice> chosen_;
  const size_t group_;  // a choice and its negatives
  const PhiloxKey key_;
  const bool test_;
};

struct Line {
  Choice choice;
  int64_t time = 0;
};

// Numbers names in order of appearance.
class Names {
 public:
  int32_t IndexOf(absl::string_view name) {
    return index_.emplace(std::string(name), static_cast<int32_t>(index_.size())).first->second;
  }
  int32_t size() const { return static_cast<int32_t>(index_.size()); }
  // For errors: it searches all names.
  std::string NameOf(int32_t index) const {
    const auto found = std::find_if(index_.begin(), index_.end(),
                                    [&](const auto& entry) { return entry.second == index; });
    return found == index_.end() ? "" : found->first.substr(0, 40);
  }

 private:
  std::map<std::string, int32_t> index_;
};

std::vector<absl::string_view> Fields(absl::string_view line) {
  if (line.find("::") != absl::string_view::npos) return absl::StrSplit(line, "::");
  return absl::StrSplit(line, absl::ByAnyChar("\t,"));
}

}  // namespace

absl::StatusOr<TrainAndTest> LoadRatings(const DataConfig& config, uint64_t seed) {
  Names users, items;
  std::vector<Line> lines;
  bool first = true;
  PSGD_RETURN_IF_ERROR(ForEachLine(config.path(), [&](absl::string_view text) -> absl::Status {
    const auto fields = Fields(text);
    const bool top = std::exchange(first, false);
    double rating = 0;
    int64_t time = 0;
    const bool all = fields.size() >= 4 && !fields[0].empty() && !fields[1].empty();
    const bool numbers =
        all && absl::SimpleAtod(fields[2], &rating) && absl::SimpleAtoi(fields[3], &time);
    if (!all || (!numbers && !top)) {
      return InvalidArgumentError(
          "not a user, an item, a rating and a time between `::`, tabs or commas: ",
          all ? "the rating or the time is no number" : absl::StrCat(fields.size(), " of these"));
    }
    if (!numbers) return absl::OkStatus();  // names of columns
    if (lines.size() == kMostChoices) {
      return absl::InvalidArgumentError("more than 2^28 choices; use a part of the file");
    }
    lines.push_back({{users.IndexOf(fields[0]), items.IndexOf(fields[1])}, time});
    return absl::OkStatus();
  }));
  auto choices = std::make_shared<Choices>();
  choices->users = users.size();
  choices->items = items.size();
  if (choices->items < 2) {
    return InvalidArgumentError(config.path(), " has ", choices->items,
                                " items: too few to tell chosen from not chosen");
  }
  choices->of_user.resize(choices->users);
  for (const Line& line : lines) choices->of_user[line.choice.user].push_back(line.choice.item);
  for (int32_t user = 0; user < choices->users; ++user) {
    auto& own = choices->of_user[user];
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    if (static_cast<int32_t>(own.size()) < choices->items) continue;
    return InvalidArgumentError(
        config.path(), ": user ", users.NameOf(user), " chose all ", choices->items,
        " items, so that none is left that was not chosen; leave that user out");
  }

  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::pair(a.choice.user, a.time) < std::pair(b.choice.user, b.time);
  });
  std::vector<Choice> train, test;
  for (size_t begin = 0, end; begin < lines.size(); begin = end) {
    const int32_t user = lines[begin].choice.user;
    for (end = begin; end < lines.size() && lines[end].choice.user == user;) ++end;
    const Choice last = lines[end - 1].choice;
    const bool only = choices->of_user[user].size() == 1;
    if (!only) test.push_back(last);
    for (size_t i = begin; i < end; ++i) {
      // Training must not contain the item that the test asks for.
      if (only || lines[i].choice.item != last.item) train.push_back(lines[i].choice);
    }
  }
  if (test.empty()) {
    return InvalidArgumentError(config.path(),
                                " has no user who chose two items: nothing is left for the test");
  }
  const PhiloxKey key = MakeKey(seed, RandomPurpose::kNegatives);
  const PhiloxKey test_key = MakeKey(seed, RandomPurpose::kNegatives, 1);
  TrainAndTest sets;
  sets.train =
      std::make_shared<RatingsDataset>(choices, std::move(train), config.ratings().negatives(), key,
                                       /*test=*/false);
  sets.test = std::make_shared<RatingsDataset>(
      choices, std::move(test), config.ratings().test_negatives(), test_key, /*test=*/true);
  return sets;
}

}  // namespace psgd
