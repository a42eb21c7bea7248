// Which codec carries which tensor.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

// Chooses the codec of a tensor's pushes: none for statistics; else the first rule whose glob
// matches the name; else the config's own choice, by default none. Tensors of less than dense_below
// bytes travel whole: as none, but with dgc's momentum or as signum's signs if that codec is
// chosen. Sparse tensors travel as none, which sends only their nonzero values, if the choice is
// auto, or if no rule chose and the codec sends zeros.
CodecConfig ChooseCodec(const CompressionConfig& config, const ParameterSpec& parameter);

// Whether pushes have single elements, and leave the others for later ones.
bool SendsSingleElements(const CodecConfig& codec);

// For people, if dense_below keeps the codec from more than half of the weights that train: "0 of 4
// tensors". Else empty.
std::string CarriedText(const CompressionConfig& config, const ModelSpec& model);
// The same in a sentence: "codec topk carries 0 of 4 tensors: ...".
std::string LeftOutText(const CompressionConfig& config, const ModelSpec& model);

// For people, if a codec that is to leave values out has a density of 1. Else empty.
std::string FullDensityText(const CompressionConfig& config);

// Whether any tensor is to be pushed as the factors of its gradient.
bool PushesFactors(const CompressionConfig& config);

// Converts options in epochs to steps.
CompressionConfig InSteps(CompressionConfig config, double steps_per_epoch);

// The name of the codec for pushes of large tensors, such as "topk".
std::string PushCodecName(const CompressionConfig& config);

// The codecs that auto chooses among: fp16, then the given ones, by default int8, onebit, topk.
std::vector<CodecConfig> Candidates(const AutoCodec& config);

// Such as `topk`, or `topk(density: 0.05)` with the options that differ from the defaults.
std::string CodecText(const CodecConfig& codec);

// Returns an error that names the first rule that fits no parameter: such a rule would do nothing.
absl::Status CheckRules(const CompressionConfig& config, const ModelSpec& model);

}  // namespace psgd
