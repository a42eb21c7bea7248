#include "net/transport_security.h"

#include "absl/strings/str_cat.h"

namespace psgd {

std::string NotItsPass(const DataHeader& header) {
  return absl::StrCat("a message in the name of worker ", header.worker(), ", incarnation ",
                      header.incarnation(),
                      ", from a connection that is not (or no longer) its own");
}

}  // namespace psgd
