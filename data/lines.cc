#include "data/lines.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

constexpr unsigned kPiece = 256 * 1024;
constexpr size_t kLongestLine = size_t{64} << 20;

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};

}  // namespace

absl::Status ForEachLine(const std::string& path,
                         const std::function<absl::Status(absl::string_view)>& visit) {
  const std::unique_ptr<std::remove_pointer_t<gzFile>, CloseGz> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " cannot be opened: ", std::strerror(errno), "; check data.path"));
  }
  size_t number = 0;
  const auto take = [&](absl::string_view line) -> absl::Status {
    ++number;
    line = absl::StripTrailingAsciiWhitespace(line);
    if (line.empty()) return absl::OkStatus();
    return Annotate(visit(line), absl::StrCat(path, ":", number));
  };
  std::string text;
  while (true) {
    const size_t before = text.size();
    text.resize(before + kPiece);
    const int got = gzread(file.get(), text.data() + before, kPiece);
    if (got < 0) {
      return absl::DataLossError(absl::StrCat(path, " cannot be read to its end: ",
                                              gzerror(file.get(), nullptr),
                                              "; it is damaged or incomplete, fetch it again"));
    }
    text.resize(before + static_cast<size_t>(got));
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      PSGD_RETURN_IF_ERROR(take(absl::string_view(text).substr(begin, end - begin)));
    }
    text.erase(0, begin);
    if (got == 0) return text.empty() ? absl::OkStatus() : take(text);
    if (text.size() > kLongestLine) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ":", number + 1, ": a line of more than 64 MiB; this is not a text file"));
    }
  }
}

}  // namespace psgd
