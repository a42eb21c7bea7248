#include "experiment/launch/command_gpus.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "train/gpu_devices.h"

namespace psgd {

absl::StatusOr<std::vector<std::string>> GpusForCommands(absl::string_view list) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<int> wanted, ParseDeviceList(list));
  const char* const set = getenv("CUDA_VISIBLE_DEVICES");
  const absl::string_view visible = set == nullptr ? "" : set;
  const std::vector<std::string> there = absl::StrSplit(visible, ',', absl::SkipWhitespace());
  std::vector<std::string> names;
  for (const int device : wanted) {
    if (set == nullptr) {
      names.push_back(absl::StrCat(device));
    } else if (device < static_cast<int>(there.size())) {
      names.push_back(there[device]);
    } else {
      return NotFoundError("--gpu ", list, " asks for device ", device,
                           ", but CUDA_VISIBLE_DEVICES is ", visible.empty() ? "empty" : visible,
                           " here; --gpu counts the devices of that list from 0");
    }
  }
  return names;
}

}  // namespace psgd
