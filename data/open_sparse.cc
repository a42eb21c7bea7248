#include "data/open_sparse.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "data/ratings.h"
#include "data/table.h"

namespace psgd {

bool IsSparseFormat(DataConfig::Format format) {
  return format == DataConfig::LIBSVM || format == DataConfig::CRITEO ||
         format == DataConfig::RATINGS;
}

absl::StatusOr<SparseSets> OpenSparse(const DataConfig& config, uint64_t seed) {
  if (config.path().empty()) {
    return absl::InvalidArgumentError(
        "data.path is not set, and this format reads from there; set it to the file of the "
        "samples");
  }
  if (config.format() == DataConfig::RATINGS) {
    const RatingsConfig& ratings = config.ratings();
    for (const auto& [key, count] : {std::pair{"negatives", ratings.negatives()},
                                     std::pair{"test_negatives", ratings.test_negatives()}}) {
      if (count >= 1) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("data.ratings.", key, " is ", count, "; it must be at least 1"));
    }
    return LoadRatings({config.path(), ratings.negatives(), ratings.test_negatives(), seed});
  }
  TableOptions options;
  options.path = config.path();
  options.test = config.table().test();
  options.test_fraction = config.table().test_fraction();
  options.criteo = config.format() == DataConfig::CRITEO;
  options.features = config.table().features();
  if (!(options.test_fraction > 0 && options.test_fraction < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.table.test_fraction is ", options.test_fraction, "; it must be between 0 and 1"));
  }
  return LoadTable(options);
}

}  // namespace psgd
