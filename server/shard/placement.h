// Cuts a model's parameters into slices and gives each slice to a shard. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

inline constexpr uint32_t kMaxSliceElements = 1u << 20;
inline constexpr uint32_t kUsualSliceElements = 1u << 18;

// Elements of a parameter. REQUIRES: the model is valid.
uint64_t ElementsOf(const ParameterSpec& parameter);

// Checks a ModelSpec, which comes from outside: names are distinct and printable, shapes positive
// and free of overflow, initial values finite, and a server can hold the whole. An error names the
// parameter.
absl::Status ValidateModel(const ModelSpec& model);

// The parameters that only `model` has, if it has all those of `other`, in their order. Else none.
std::vector<std::string> NamesAdded(const ModelSpec& model, const ModelSpec& other);

// For people: the first difference of two models, as "fc1.weight is 64x32, not 256x32". Empty: the
// models are equal.
std::string FirstDifference(const ModelSpec& model, const ModelSpec& other);

// Cuts slices in the order of the model, so that ids ascend from the front of the network to its
// end. A slice never spans two parameters; the slices of a parameter are as equal as possible.
// `slice_bytes` is an upper bound (unless it would make more than some 262,000 slices). 0 chooses a
// size that spreads the model evenly and lets slices travel while others are computed: total / (4 *
// shards), but at least 16 Ki elements and at most `largest`. Above 1024 x `largest` weights: at
// most 1/1024 of the model, up to kMaxSliceElements. The largest slices are dealt first, each to
// the shard with the fewest bytes, which keeps shards within one slice of each other. With fewer
// slices than shards some shards have none. The caller sets the endpoints.
//
// REQUIRES: ValidateModel(model).ok(), shards >= 1, slice_bytes >= 0.
Placement PlaceSlices(const ModelSpec& model, int shards, int64_t slice_bytes,
                      uint32_t largest = kUsualSliceElements);
// As the config says. powersgd saves most bytes with large slices. lars and lamb use one norm for
// each slice. So their slices may be as large as kMaxSliceElements.
Placement PlaceSlices(const ModelSpec& model, const Config& config);

}  // namespace psgd
