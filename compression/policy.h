// Which codec carries which tensor.
#pragma once

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

// The codec of a tensor's pushes: of statistics none; else that of the first rule whose glob matches
// the name, or the config's own choice, by default none. Tensors of less than dense_below bytes travel
// whole: as none, but with dgc's momentum, or as signum's signs, where those are what is chosen.
CodecConfig ChooseCodec(const CompressionConfig& config, const ParameterSpec& parameter);

// An error names the first rule that fits no parameter: it would do nothing.
absl::Status CheckRules(const CompressionConfig& config, const ModelSpec& model);

// Whether the whole of `name` matches: `*` stands for any characters, `?` for one.
bool GlobMatches(absl::string_view glob, absl::string_view name);

}  // namespace psgd
