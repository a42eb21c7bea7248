#include "experiment/plan/random_draws.h"

#include <xxhash.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/philox.h"
#include "experiment/plan/sweep_yaml.h"

namespace psgd {
namespace {

// A number in [0, 1).
double Uniform(const std::string& key, uint64_t seed, int index) {
  const uint64_t salt = XXH3_64bits(key.data(), key.size());
  const PhiloxBlock block = Philox({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
                                   static_cast<uint64_t>(index), salt);
  return (block.word[0] * 4294967296.0 + block.word[1]) / 18446744073709551616.0;
}

bool TakesWholeNumbers(const std::string& key) {
  Config config;
  SweepLaunch launch;
  const auto place = FindSetting(key, &config, &launch);
  if (!place.ok()) return false;
  const auto type = place->field->cpp_type();
  using Field = google::protobuf::FieldDescriptor;
  return type == Field::CPPTYPE_INT32 || type == Field::CPPTYPE_INT64 ||
         type == Field::CPPTYPE_UINT64;
}

}  // namespace

std::string DrawValue(const SweepDraw& draw, uint64_t seed, int index) {
  const double share = Uniform(draw.key(), seed, index);
  if (draw.choice_size() > 0) {
    return draw.choice(static_cast<int>(share * draw.choice_size()));
  }
  double value = 0;
  if (draw.uniform_size() > 0) {
    value = draw.uniform(0) + share * (draw.uniform(1) - draw.uniform(0));
  } else {
    const double low = std::log(draw.log_uniform(0));
    value = std::exp(low + share * (std::log(draw.log_uniform(1)) - low));
  }
  if (TakesWholeNumbers(draw.key())) return absl::StrCat(std::llround(value));
  // Four digits are fine enough for a search and short to read.
  return absl::StrFormat("%.4g", value);
}

}  // namespace psgd
