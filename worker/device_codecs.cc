#include "worker/device_codecs.h"

#include "common/plugin.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<DeviceCodecs>> LoadDeviceCodecs(const std::string& plugin,
                                                               const std::string& plugin_dir,
                                                               int device) {
  PSGD_ASSIGN_OR_RETURN(void* const found,
                        FindInPlugin(plugin, plugin_dir, "psgd_make_device_codecs"));
  const auto make = reinterpret_cast<MakeDeviceCodecsFunction>(found);
  absl::StatusOr<std::unique_ptr<DeviceCodecs>> made;
  if (!make(PluginInterface(), device, &made)) return PluginOfOtherBuild(plugin);
  return made;
}

}  // namespace psgd
