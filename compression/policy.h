// Which codec carries which tensor.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

// The codec of a tensor's pushes: of statistics none; else that of the first rule whose glob
// matches the name, or the config's own choice, by default none. Tensors of less than dense_below
// bytes travel whole: as none, but with dgc's momentum, or as signum's signs, where those are what
// is chosen. So do sparse ones where the choice is auto's, or a codec's that no rule chose and that
// sends zeros: as none, only what is not zero is sent of their gradients.
CodecConfig ChooseCodec(const CompressionConfig& config, const ParameterSpec& parameter);

// The same, with the lengths of codecs' options in steps, of which an epoch has so many.
CompressionConfig InSteps(CompressionConfig config, double steps_per_epoch);

// The codec that the pushes of large tensors use, as "topk".
std::string PushCodecName(const CompressionConfig& config);

// What auto chooses among: fp16, then the others as they are given; by default int8, onebit, topk.
std::vector<CodecConfig> Candidates(const AutoCodec& config);

// As `topk`, or `topk(density: 0.05)` with the options that are not the usual ones.
std::string CodecText(const CodecConfig& codec);

// An error names the first rule that fits no parameter: it would do nothing.
absl::Status CheckRules(const CompressionConfig& config, const ModelSpec& model);

// Whether the whole of `name` matches: `*` stands for any characters, `?` for one.
bool GlobMatches(absl::string_view glob, absl::string_view name);

}  // namespace psgd
