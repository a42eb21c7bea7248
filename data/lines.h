// Text files line by line, unpacked on the way if they are gzip.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// Calls visit(line) for each line that is not blank, without its \n or \r\n, until one fails.
// Blanks and tabs at its ends are left there: they may be fields. Errors name the file and the
// line. A gzip file that ends early, or is damaged, is an error after the lines that came before.
absl::Status ForEachLine(const std::string& path,
                         const std::function<absl::Status(absl::string_view)>& visit);

}  // namespace psgd
