#include "net/auto/auto_address.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "net/address.h"

namespace psgd {

std::string AutoAddress::ToString() const {
  return absl::StrCat(tcp, ipc.empty() ? "" : " ", ipc,
                      machine.empty() ? "" : " machine=", machine);
}

absl::StatusOr<AutoAddress> ParseAutoAddress(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  AutoAddress address;
  address.tcp = std::string(words[0]);
  PSGD_RETURN_IF_ERROR(ParseTcpAddress(address.tcp).status());
  for (size_t i = 1; i < words.size(); ++i) {
    absl::string_view rest = words[i];
    if (absl::ConsumePrefix(&rest, "machine=")) {
      address.machine = std::string(rest);
      continue;
    }
    PSGD_ASSIGN_OR_RETURN(const Address ipc, ParseIpcAddress(rest));
    address.ipc = ipc.ToString();
  }
  return address;
}

}  // namespace psgd
