#include "net/auto/auto_address.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "net/address.h"

namespace psgd {

std::string AutoAddress::ToString() const {
  return absl::StrCat(tcp, ucx == 0 ? "" : absl::StrCat(" ucx=", ucx), ipc.empty() ? "" : " ", ipc,
                      machine.empty() ? "" : " machine=", machine);
}

std::string AutoAddress::UcxAddress() const {
  Address address = *ParseTcpAddress(tcp);
  address.port = ucx;
  return address.ToString();
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
    if (absl::ConsumePrefix(&rest, "ucx=")) {
      if (!absl::SimpleAtoi(rest, &address.ucx) || address.ucx < 1 || address.ucx > 65535) {
        return InvalidArgumentError("\"", words[i], "\" is not ucx=PORT, with a port up to 65535");
      }
      continue;
    }
    PSGD_ASSIGN_OR_RETURN(const Address ipc, ParseIpcAddress(rest));
    address.ipc = ipc.ToString();
  }
  return address;
}

}  // namespace psgd
