// Reads text files line by line, and unpacks them on the way if they are gzip.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// Calls visit(line) for each line that is not blank, without its \n or \r\n, until one call
// fails. Blanks and tabs at the ends of a line stay: they may be fields. Errors name the file and
// the line. A damaged or truncated gzip file is an error after the lines before the damage.
absl::Status ForEachLine(const std::string& path,
                         const std::function<absl::Status(absl::string_view)>& visit);
// As above. Calls visit(line, number); lines are numbered from 1, blank ones included.
absl::Status ForEachNumberedLine(
    const std::string& path, const std::function<absl::Status(absl::string_view, size_t)>& visit);

}  // namespace psgd
