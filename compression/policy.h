// Which codec carries which tensor.
#pragma once

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

// The codec of a tensor's pushes. The first that applies: statistics and tensors of less than
// dense_below bytes travel as they are; the first rule whose glob matches the name decides; else
// the config's own choice, by default none.
CodecConfig ChooseCodec(const CompressionConfig& config, const ParameterSpec& parameter);

// An error names the first rule that fits no parameter: it would do nothing.
absl::Status CheckRules(const CompressionConfig& config, const ModelSpec& model);

// Whether the whole of `name` matches: `*` stands for any characters, `?` for one.
bool GlobMatches(absl::string_view glob, absl::string_view name);

}  // namespace psgd
