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
  return OpenData(data, config.seed());
}

absl::StatusOr<PaddingNote> CheckPadding(const Config& config, const SampleSource& samples,
                                         const std::string& what) {
  const SampleShape shape = samples.shape();
  PaddingNote note;
  if (config.data().format() != DataConfig::ARRAYS || config.model().has_onnx() ||
      !shape.IsSequence()) {
    return note;
  }
  PSGD_ASSIGN_OR_RETURN(const ModelInput input, InputOf(config.model()));
  if (!input.ends) return note;
  std::vector<int32_t> tokens(shape.elements()), labels(shape.labels());
  std::vector<float> targets(static_cast<size_t>(shape.targets));
  size_t count = 0, first = 0;
  int32_t token = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    PSGD_RETURN_IF_ERROR(
        samples.Read({.index = i}, {.tokens = tokens, .labels = labels, .targets = targets}));
    const auto end = std::ranges::find(tokens, 0);
    const auto behind = std::find_if(end, tokens.end(), [](int32_t token) { return token != 0; });
    if (behind == tokens.end()) continue;
    if (count++ > 0) continue;
    first = i;
    token = *behind;
  }
  if (count == 0) return note;
  note.of_many = count * 20 > samples.size();
  note.text = absl::StrCat(
      what, " ", first, " has token ", token, " behind a 0, as ", count, " of ", samples.size(),
      count == 1 ? " has, and " : " have, and ", config.model().zoo(),
      " leaves out a sequence from its first 0 on, as padding; put the padding last, as with "
      "Keras' pad_sequences(..., padding='post'), and if 0 is a token, add 1 to all tokens");
  return note;
}

absl::StatusOr<PaddingNote> CheckPadding(const Config& config, const DataSets& data) {
  const std::string& path = config.data().path();
  const std::string& test = config.data().table().test();
  PSGD_ASSIGN_OR_RETURN(
      PaddingNote train,
      CheckPadding(config, *data.train, absl::StrCat(path, ": the training sample")));
  PSGD_ASSIGN_OR_RETURN(PaddingNote tested, CheckPadding(config, *data.test,
                                                         absl::StrCat(test.empty() ? path : test,
                                                                      ": the test sample")));
  const bool says_test = train.text.empty() || (tested.of_many && !train.of_many);
  return says_test ? tested : train;
}

}  // namespace psgd
