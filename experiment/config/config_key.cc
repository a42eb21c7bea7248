#include "experiment/config/config_key.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "experiment/config/config_reader.h"
#include "experiment/config/schema.h"

namespace psgd {

absl::StatusOr<ConfigKey> FindConfigKey(const std::string& path, google::protobuf::Message* root) {
  ConfigKey place{root, nullptr};
  std::string walked;
  for (const absl::string_view key : absl::StrSplit(path, '.')) {
    if (place.field != nullptr) {
      if (place.field->is_repeated()) {
        return absl::InvalidArgumentError(
            absl::StrCat(walked, " is a list; give it whole, as ", walked, "=[a, b]"));
      }
      if (!IsSection(*place.field)) {
        return absl::InvalidArgumentError(
            absl::StrCat(walked, " is a single value; it has no key \"", key, "\""));
      }
      place.message = place.message->GetReflection()->MutableMessage(place.message, place.field);
    }
    const auto& type = *place.message->GetDescriptor();
    place.field = type.FindFieldByName(std::string(key));
    if (place.field == nullptr) {
      return absl::InvalidArgumentError(UnknownKey(key, walked, type));
    }
    absl::StrAppend(&walked, walked.empty() ? "" : ".", key);
  }
  return place;
}

}  // namespace psgd
