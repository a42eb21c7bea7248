#include "data/lines.h"

#include <cstdint>
#include <memory>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "data/unpacked_file.h"

namespace psgd {
namespace {

constexpr size_t kPiece = 256 * 1024;
constexpr size_t kLongestLine = size_t{64} << 20;

}  // namespace

absl::Status ForEachLine(const std::string& path,
                         const std::function<absl::Status(absl::string_view)>& visit) {
  return ForEachNumberedLine(path, [&](absl::string_view line, size_t) { return visit(line); });
}

absl::Status ForEachNumberedLine(
    const std::string& path, const std::function<absl::Status(absl::string_view, size_t)>& visit) {
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<UnpackedFile> file, UnpackedFile::Open(path));
  size_t number = 0;
  const auto take = [&](absl::string_view line) -> absl::Status {
    ++number;
    if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    if (absl::StripLeadingAsciiWhitespace(line).empty()) return absl::OkStatus();
    return Annotate(visit(line, number), absl::StrCat(path, ":", number));
  };
  std::string text;
  while (true) {
    const size_t before = text.size();
    text.resize(before + kPiece);
    const std::span<uint8_t> room(reinterpret_cast<uint8_t*>(text.data()) + before, kPiece);
    PSGD_ASSIGN_OR_RETURN(const size_t got, file->ReadSome(room));
    text.resize(before + got);
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      PSGD_RETURN_IF_ERROR(take(absl::string_view(text).substr(begin, end - begin)));
    }
    text.erase(0, begin);
    if (got == 0) return text.empty() ? absl::OkStatus() : take(text);
    if (text.size() > kLongestLine) {
      return InvalidArgumentError(path, ":", number + 1,
                                  ": a line of more than 64 MiB; this is not a text file");
    }
  }
}

}  // namespace psgd
