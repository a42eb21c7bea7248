#include "server/shard/placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/policy.h"

namespace psgd {
namespace {

constexpr int kMaxParameters = 100000;
constexpr int kMaxDimensions = 16;
constexpr size_t kMaxNameLength = 256;
constexpr uint64_t kMaxModelElements = uint64_t{1} << 35;
constexpr uint64_t kSmallestAutomaticSlice = 16 * 1024;
constexpr uint64_t kManySlices = 1 << 10;
constexpr uint64_t kMostSlices = 1 << 18;  // plus up to one for each parameter

absl::Status Wrong(const std::string& where, absl::string_view what) {
  return InvalidArgumentError(where, " ", what);
}

absl::Status ValidateName(const std::string& where, const std::string& name) {
  if (name.empty()) return Wrong(where, "has no name");
  if (name.size() > kMaxNameLength) {
    return Wrong(where, absl::StrCat("has a name of ", name.size(), " bytes; at most ",
                                     kMaxNameLength, " are allowed"));
  }
  if (!std::ranges::all_of(name, [](char c) { return absl::ascii_isgraph(c); })) {
    return Wrong(where, absl::StrCat("has the name \"", absl::CHexEscape(name),
                                     "\", with a space or a character that is not printable ASCII; "
                                     "rename it in the model"));
  }
  return absl::OkStatus();
}

absl::Status ValidateShape(const std::string& where, const ParameterSpec& parameter) {
  if (parameter.shape_size() > kMaxDimensions) {
    return Wrong(where, absl::StrCat("has ", parameter.shape_size(), " dimensions; at most ",
                                     kMaxDimensions, " are allowed"));
  }
  uint64_t elements = 1;
  for (int64_t size : parameter.shape()) {
    if (size <= 0) return Wrong(where, absl::StrCat("has a dimension of size ", size));
    if (static_cast<uint64_t>(size) > kMaxModelElements / elements) {
      return Wrong(where, absl::StrCat("has more than ", kMaxModelElements, " elements"));
    }
    elements *= static_cast<uint64_t>(size);
  }
  return absl::OkStatus();
}

absl::Status ValidateInitializer(const std::string& where, const Initializer& initializer) {
  const bool finite =
      std::isfinite(initializer.constant().value()) && std::isfinite(initializer.uniform().low()) &&
      std::isfinite(initializer.uniform().high()) && std::isfinite(initializer.normal().mean()) &&
      std::isfinite(initializer.normal().stddev());
  if (!finite) return Wrong(where, "starts from values that are not finite");
  if (initializer.uniform().low() > initializer.uniform().high()) {
    return Wrong(where, "starts from a uniform distribution whose low end is above its high end");
  }
  if (initializer.normal().stddev() < 0) {
    return Wrong(where, "starts from a normal distribution of negative deviation");
  }
  return absl::OkStatus();
}

uint64_t SliceLimit(uint64_t total, int shards, int64_t slice_bytes, uint32_t largest) {
  if (slice_bytes > 0) {
    const uint64_t asked = static_cast<uint64_t>(slice_bytes) / sizeof(float);
    return std::clamp<uint64_t>(asked, 1 + total / kMostSlices, kMaxSliceElements);
  }
  const uint64_t most = std::clamp<uint64_t>(total / kManySlices, largest, kMaxSliceElements);
  return std::clamp<uint64_t>(total / (4 * static_cast<uint64_t>(shards)), kSmallestAutomaticSlice,
                              most);
}

bool MakesMatrices(const CodecConfig& codec) {
  return codec.has_powersgd() ||
         (codec.has_auto_() && std::ranges::any_of(Candidates(codec.auto_()), MakesMatrices));
}

// Deals slices to shards: the largest first, each to the shard that has least so far.
void Deal(int shards, Placement* placement) {
  std::vector<int> order(placement->slices_size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) {
    return placement->slices(a).count() > placement->slices(b).count();
  });
  using Load = std::pair<uint64_t, uint32_t>;  // elements, shard
  std::priority_queue<Load, std::vector<Load>, std::greater<Load>> lightest;
  for (int shard = 0; shard < shards; ++shard) lightest.push({0, static_cast<uint32_t>(shard)});
  for (int id : order) {
    auto [elements, shard] = lightest.top();
    lightest.pop();
    placement->mutable_slices(id)->set_shard(shard);
    lightest.push({elements + placement->slices(id).count(), shard});
  }
}

}  // namespace

uint64_t ElementsOf(const ParameterSpec& parameter) {
  uint64_t elements = 1;
  for (int64_t size : parameter.shape()) elements *= static_cast<uint64_t>(size);
  return elements;
}

absl::Status ValidateModel(const ModelSpec& model) {
  if (model.parameters_size() == 0) return Wrong("the model", "has no parameters");
  if (model.parameters_size() > kMaxParameters) {
    return Wrong("the model", absl::StrCat("has ", model.parameters_size(), " parameters; at most ",
                                           kMaxParameters, " are allowed"));
  }
  std::set<absl::string_view> names;
  uint64_t total = 0;
  for (int i = 0; i < model.parameters_size(); ++i) {
    const ParameterSpec& parameter = model.parameters(i);
    PSGD_RETURN_IF_ERROR(ValidateName(absl::StrCat("parameter ", i), parameter.name()));
    const std::string where = absl::StrCat("parameter ", i, " (", parameter.name(), ")");
    if (!names.insert(parameter.name()).second) return Wrong(where, "has the name of another one");
    if (!ParameterSpec::Role_IsValid(parameter.role())) {
      return Wrong(where, absl::StrCat("has the unknown role ", parameter.role()));
    }
    PSGD_RETURN_IF_ERROR(ValidateShape(where, parameter));
    PSGD_RETURN_IF_ERROR(ValidateInitializer(where, parameter.initializer()));
    total += ElementsOf(parameter);
    if (total > kMaxModelElements) {
      return Wrong("the model", absl::StrCat("has more than ", kMaxModelElements,
                                             " elements, counted up to ", where));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> NamesAdded(const ModelSpec& model, const ModelSpec& other) {
  std::vector<std::string> added;
  int next = 0;
  for (const ParameterSpec& parameter : model.parameters()) {
    if (next < other.parameters_size() && parameter.name() == other.parameters(next).name()) {
      ++next;
    } else {
      added.push_back(parameter.name());
    }
  }
  if (next < other.parameters_size()) added.clear();
  return added;
}

std::string FirstDifference(const ModelSpec& model, const ModelSpec& other) {
  if (model.SerializeAsString() == other.SerializeAsString()) return "";
  if (const auto added = NamesAdded(model, other); !added.empty()) {
    return absl::StrCat("it also trains ", absl::StrJoin(added, ", "));
  }
  if (const auto lacking = NamesAdded(other, model); !lacking.empty()) {
    return absl::StrCat("it does not train ", absl::StrJoin(lacking, ", "));
  }
  for (int i = 0; i < std::min(model.parameters_size(), other.parameters_size()); ++i) {
    const ParameterSpec &a = model.parameters(i), &b = other.parameters(i);
    if (a.name() != b.name()) {
      return absl::StrCat("parameter ", i, " is ", a.name(), ", not ", b.name());
    }
    if (!std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end())) {
      return absl::StrCat(a.name(), " is ", absl::StrJoin(a.shape(), "x"), ", not ",
                          absl::StrJoin(b.shape(), "x"));
    }
    if (a.SerializeAsString() != b.SerializeAsString()) {
      const bool other_values =
          a.initializer().given().checksum() != b.initializer().given().checksum();
      return absl::StrCat(a.name(), other_values ? " has other values in the model's file"
                                                 : " starts or decays in another way");
    }
  }
  if (model.parameters_size() == other.parameters_size() && model.name() == other.name()) {
    return "its data have other scales, categories or classes (data.path: is it another file? "
           "Of the same file, with a column of equal numbers: an earlier version, which scaled it "
           "otherwise, began the run and can continue it)";
  }
  if (model.parameters_size() == other.parameters_size()) {
    return absl::StrCat("it is called ", model.name(), ", not ", other.name());
  }
  return absl::StrCat("it has ", model.parameters_size(), " parameters, not ",
                      other.parameters_size());
}

Placement PlaceSlices(const ModelSpec& model, const Config& config) {
  const CompressionConfig& compression = config.compression();
  const bool matrices = MakesMatrices(compression.push()) ||
                        std::ranges::any_of(compression.rules(), [](const CompressionRule& rule) {
                          return MakesMatrices(rule.push());
                        });
  const bool norms = config.optimizer().has_lars() || config.optimizer().has_lamb();
  return PlaceSlices(model, config.cluster().shards(), config.cluster().slice(),
                     matrices || norms ? kMaxSliceElements : kUsualSliceElements);
}

Placement PlaceSlices(const ModelSpec& model, int shards, int64_t slice_bytes, uint32_t largest) {
  uint64_t total = 0;
  for (const ParameterSpec& parameter : model.parameters()) total += ElementsOf(parameter);
  const uint64_t limit = SliceLimit(total, shards, slice_bytes, largest);
  Placement placement;
  for (int i = 0; i < model.parameters_size(); ++i) {
    const uint64_t elements = ElementsOf(model.parameters(i));
    const uint64_t pieces = (elements + limit - 1) / limit;
    uint64_t offset = 0;
    for (uint64_t piece = 0; piece < pieces; ++piece) {
      // The first `elements % pieces` slices are one element longer than the rest.
      const uint64_t count = elements / pieces + (piece < elements % pieces ? 1 : 0);
      SliceSpec* slice = placement.add_slices();
      slice->set_parameter(static_cast<uint32_t>(i));
      slice->set_offset(offset);
      slice->set_count(static_cast<uint32_t>(count));
      offset += count;
    }
  }
  Deal(shards, &placement);
  return placement;
}

}  // namespace psgd
