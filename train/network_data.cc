#include "train/network_data.h"

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

}  // namespace psgd
