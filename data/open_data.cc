#include "data/open_data.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/idx.h"
#include "data/open_sparse.h"
#include "data/prefix.h"
#include "data/synthetic.h"
#include "data/text.h"

namespace psgd {
namespace {

// Sample indices travel as u32, and an epoch's order holds one for each sample.
constexpr int64_t kMostSamples = int64_t{1} << 30;

struct RawSets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

absl::StatusOr<RawSets> OpenIdx(const DataConfig& config) {
  if (config.path().empty()) {
    return absl::InvalidArgumentError(
        "data.path is not set, and format idx reads its files from there; set it to their folder, "
        "as /usr/share/datasets/fashion-mnist, or set data.format to synthetic");
  }
  PSGD_ASSIGN_OR_RETURN(IdxSets sets, LoadIdx(config.path()));
  return RawSets{std::move(sets.train), std::move(sets.test)};
}

absl::StatusOr<SampleShape> SyntheticShape(const SyntheticConfig& config) {
  SampleShape shape{1, 28, 28, config.classes()};
  if (config.shape().empty()) return shape;
  if (config.shape_size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.synthetic.shape has ", config.shape_size(),
                     " values; write channels, height and width, as [1, 28, 28]"));
  }
  constexpr int64_t kLargestSide = 1 << 20;  // keeps the product within 64 bits
  for (const int64_t side : config.shape()) {
    if (side < 1 || side > kLargestSide) {
      return absl::InvalidArgumentError(absl::StrCat("data.synthetic.shape contains ", side,
                                                     "; it must be from 1 to ", kLargestSide));
    }
  }
  shape.channels = static_cast<int>(config.shape(0));
  shape.height = static_cast<int>(config.shape(1));
  shape.width = static_cast<int>(config.shape(2));
  return shape;
}

absl::StatusOr<RawSets> OpenSynthetic(const SyntheticConfig& config, uint64_t seed) {
  if (std::max(config.train_samples(), config.test_samples()) > kMostSamples) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.synthetic asks for more than ", kMostSamples, " samples; use fewer"));
  }
  SyntheticOptions options;
  PSGD_ASSIGN_OR_RETURN(options.shape, SyntheticShape(config));
  options.noise = config.noise();
  options.seed = seed;
  RawSets sets;
  options.samples = static_cast<size_t>(config.train_samples());
  PSGD_ASSIGN_OR_RETURN(sets.train, SyntheticDataset::Create(options));
  options.samples = static_cast<size_t>(config.test_samples());
  options.test = true;
  PSGD_ASSIGN_OR_RETURN(sets.test, SyntheticDataset::Create(options));
  return sets;
}

// `Prefix`: the first samples of a Set.
template <typename Prefix, typename Set>
absl::Status Limit(absl::string_view key, int64_t limit, std::shared_ptr<const Set>* set) {
  if (limit == 0) return absl::OkStatus();
  if (static_cast<uint64_t>(limit) > (*set)->size()) {
    return absl::InvalidArgumentError(absl::StrCat("data.", key, " is ", limit, ", but there are ",
                                                   (*set)->size(),
                                                   " samples; lower it, or set it to 0 for all"));
  }
  *set = std::make_shared<Prefix>(std::move(*set), static_cast<size_t>(limit));
  return absl::OkStatus();
}

// A config may have come from another process, where nobody checked its ranges.
absl::Status CheckCounts(const DataConfig& config) {
  const std::pair<const char*, int64_t> counts[] = {
      {"batch", config.batch()},
      {"eval_batch", config.eval_batch()},
      {"prefetch", config.prefetch()},
      {"threads", config.threads()},
      {"synthetic.train_samples", config.synthetic().train_samples()},
      {"synthetic.test_samples", config.synthetic().test_samples()},
      {"synthetic.classes", config.synthetic().classes()},
      {"text.length", config.text().length()}};
  for (const auto& [key, count] : counts) {
    if (count >= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.", key, " is ", count, "; it must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const DataConfig& config, size_t train_samples) {
  if (static_cast<size_t>(config.batch()) <= train_samples) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.batch is ", config.batch(), ", but the training set has only ",
                   train_samples, " samples; lower data.batch or raise data.train_samples"));
}

absl::Status CheckAugment(const DataConfig& config, const SampleShape& shape) {
  const int padding = config.augment().crop_padding();
  if (padding >= std::min(shape.height, shape.width)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.augment.crop_padding is ", padding, ", but images are ",
                     shape.ImageText(), ": a crop could miss the image; use a smaller padding"));
  }
  return absl::OkStatus();
}

absl::Status RefuseImageKeys(const DataConfig& config) {
  const AugmentConfig& augment = config.augment();
  if (augment.crop_padding() > 0 || augment.flip() ||
      config.mean_size() + config.stddev_size() > 0) {
    return absl::InvalidArgumentError(
        "data.augment, data.mean and data.stddev are for images; leave them out with this format");
  }
  return absl::OkStatus();
}

// `Prefix`: the first samples of a set.
template <typename Prefix, typename Sets>
absl::StatusOr<DataSets> Unchanged(const DataConfig& config, Sets raw) {
  PSGD_RETURN_IF_ERROR(Limit<Prefix>("train_samples", config.train_samples(), &raw.train));
  PSGD_RETURN_IF_ERROR(Limit<Prefix>("test_samples", config.test_samples(), &raw.test));
  PSGD_RETURN_IF_ERROR(CheckBatch(config, raw.train->size()));
  DataSets sets;
  sets.shape = raw.train->shape();
  sets.train = std::make_shared<SampleSource>(std::move(raw.train));
  sets.test = std::make_shared<SampleSource>(std::move(raw.test));
  return sets;
}

absl::StatusOr<DataSets> OpenText(const DataConfig& config) {
  if (config.path().empty()) {
    return absl::InvalidArgumentError(
        "data.path is not set, and format text reads from there; set it to a file, or to a folder "
        "of files");
  }
  PSGD_RETURN_IF_ERROR(RefuseImageKeys(config));
  const double fraction = config.text().test_fraction();
  if (!(fraction > 0 && fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.text.test_fraction is ", fraction, "; it must be between 0 and 1"));
  }
  PSGD_ASSIGN_OR_RETURN(TextSets text, LoadText({config.path(), config.text().length(), fraction}));
  return Unchanged<PrefixTokens>(config, std::move(text));
}

absl::StatusOr<DataSets> Open(const DataConfig& config, uint64_t seed) {
  PSGD_RETURN_IF_ERROR(CheckCounts(config));
  if (config.format() == DataConfig::TEXT) return OpenText(config);
  if (IsSparseFormat(config.format())) {
    PSGD_RETURN_IF_ERROR(RefuseImageKeys(config));
    PSGD_ASSIGN_OR_RETURN(SparseSets sets, OpenSparse(config, seed));
    return Unchanged<PrefixSparse>(config, std::move(sets));
  }
  PSGD_ASSIGN_OR_RETURN(RawSets raw, config.format() == DataConfig::SYNTHETIC
                                         ? OpenSynthetic(config.synthetic(), seed)
                                         : OpenIdx(config));
  PSGD_RETURN_IF_ERROR(Limit<PrefixDataset>("train_samples", config.train_samples(), &raw.train));
  PSGD_RETURN_IF_ERROR(Limit<PrefixDataset>("test_samples", config.test_samples(), &raw.test));
  PSGD_RETURN_IF_ERROR(CheckBatch(config, raw.train->size()));
  PSGD_RETURN_IF_ERROR(CheckAugment(config, raw.train->shape()));

  DataSets sets;
  sets.shape = raw.train->shape();
  PSGD_ASSIGN_OR_RETURN(sets.normalization, ChooseNormalization(config, *raw.train));

  std::vector<std::unique_ptr<const Transform>> train, test;
  const AugmentConfig& augment = config.augment();
  if (augment.crop_padding() > 0) {
    train.push_back(std::make_unique<RandomCrop>(sets.shape, augment.crop_padding(), seed));
  }
  if (augment.flip()) train.push_back(std::make_unique<RandomFlip>(sets.shape, seed));
  train.push_back(std::make_unique<Normalize>(sets.shape, sets.normalization));
  test.push_back(std::make_unique<Normalize>(sets.shape, sets.normalization));
  sets.train = std::make_shared<SampleSource>(std::move(raw.train), std::move(train));
  sets.test = std::make_shared<SampleSource>(std::move(raw.test), std::move(test));
  return sets;
}

}  // namespace

absl::StatusOr<DataSets> OpenData(const DataConfig& config, uint64_t seed) {
  try {
    return Open(config, seed);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "not enough memory to load the dataset; use a smaller one or a larger machine");
  }
}

}  // namespace psgd
