#include "train/network_data.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/open_formats.h"
#include "engine/zoo/zoo.h"

namespace psgd {

absl::StatusOr<DataConfig> DataOf(const Config& config) {
  DataConfig data = config.data();
  if (data.format() == DataConfig::ARRAYS && data.input() == ArrayInput::AUTO) {
    PSGD_ASSIGN_OR_RETURN(const ModelInput input, InputOf(config.model()));
    data.set_input(input.tokens ? ArrayInput::TOKENS : ArrayInput::NUMBERS);
  } else if (IsPictureFormat(data.format()) && data.images().channels() == 0) {
    PSGD_ASSIGN_OR_RETURN(const ModelInput input, InputOf(config.model()));
    data.mutable_images()->set_channels(input.grey ? 1 : 3);
  }
  return data;
}

absl::StatusOr<DataSets> OpenDataOf(const Config& config) {
  PSGD_ASSIGN_OR_RETURN(const DataConfig data, DataOf(config));
  PSGD_ASSIGN_OR_RETURN(DataSets sets, OpenData(data, config.seed()));
  PSGD_RETURN_IF_ERROR(CheckPadding(config, sets));
  return sets;
}

absl::Status CheckPadding(const Config& config, const SampleSource& samples,
                          const std::string& what) {
  const SampleShape shape = samples.shape();
  if (config.data().format() != DataConfig::ARRAYS || config.model().has_onnx() ||
      !shape.IsSequence()) {
    return absl::OkStatus();
  }
  PSGD_ASSIGN_OR_RETURN(const ModelInput input, InputOf(config.model()));
  if (!input.ends) return absl::OkStatus();
  std::vector<int32_t> tokens(shape.elements()), labels(shape.labels());
  std::vector<float> targets(static_cast<size_t>(shape.targets));
  for (size_t i = 0; i < samples.size(); ++i) {
    PSGD_RETURN_IF_ERROR(
        samples.Read({.index = i}, {.tokens = tokens, .labels = labels, .targets = targets}));
    const auto end = std::ranges::find(tokens, 0);
    const auto behind = std::find_if(end, tokens.end(), [](int32_t token) { return token != 0; });
    if (behind == tokens.end()) continue;
    return InvalidArgumentError(
        what, " ", i, " has token ", *behind, " behind a 0, and ", config.model().zoo(),
        " leaves out a sequence from its first 0 on, as padding; put the padding last, as with "
        "Keras' pad_sequences(..., padding='post'), and if 0 is a token, add 1 to all tokens");
  }
  return absl::OkStatus();
}

absl::Status CheckPadding(const Config& config, const DataSets& data) {
  const std::string& path = config.data().path();
  const std::string& test = config.data().table().test();
  PSGD_RETURN_IF_ERROR(
      CheckPadding(config, *data.train, absl::StrCat(path, ": the training sample")));
  return CheckPadding(config, *data.test,
                      absl::StrCat(test.empty() ? path : test, ": the test sample"));
}

}  // namespace psgd
