#include "train/device_codecs.h"

#include "engine/runtime/plugin.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<DeviceCodecs>> LoadDeviceCodecs(const NetworkOptions& network) {
  PSGD_ASSIGN_OR_RETURN(void* const found, FindInPlugin(network.backend, network.plugin_dir,
                                                        "psgd_make_device_codecs"));
  const auto make = reinterpret_cast<MakeDeviceCodecsFunction>(found);
  absl::StatusOr<std::unique_ptr<DeviceCodecs>> made;
  if (!make(PluginInterface(), network.device, &made)) {
    return FailedPreconditionError("the codecs of the ", network.backend,
                                   " backend are of another build than this program");
  }
  return made;
}

}  // namespace psgd
