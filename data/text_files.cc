#include "data/text_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "data/unpacked_file.h"

namespace psgd {
namespace {

constexpr size_t kTextPiece = size_t{256} << 10;
constexpr size_t kMostOpenFiles = 64;  // a process may have a few hundred

}  // namespace

absl::StatusOr<std::shared_ptr<const TextFiles>> TextFiles::Open(
    const std::vector<std::string>& paths, uint64_t most) {
  auto files = std::make_shared<TextFiles>();
  for (const std::string& path : paths) {
    PSGD_RETURN_IF_ERROR(files->Add(path, paths.size() <= kMostOpenFiles, most));
  }
  return files;
}

absl::Status TextFiles::Add(const std::string& path, bool keep_open, uint64_t most) {
  const uint64_t room = most - size_;
  const auto too_much = [&] {
    return InvalidArgumentError(path, ": more than ", most,
                                " bytes of text; use a part of it; check data.path");
  };
  Piece piece{.path = path, .begin = size_};
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<UnpackedFile> file, UnpackedFile::Open(path));
  if (file->packed()) {
    std::vector<uint8_t>& text = piece.unpacked;
    for (size_t got = kTextPiece; got == kTextPiece;) {
      const size_t before = text.size();
      text.resize(before + kTextPiece);
      PSGD_ASSIGN_OR_RETURN(got, file->ReadSome(std::span(text).subspan(before)));
      text.resize(before + got);
      if (text.size() > room) return too_much();
    }
    text.shrink_to_fit();
    piece.size = text.size();
  } else {
    PSGD_ASSIGN_OR_RETURN(RangeFile range, RangeFile::Open(path));
    piece.size = range.size();
    if (piece.size > room) return too_much();
    if (keep_open) piece.file.emplace(std::move(range));
  }
  if (piece.size == 0) return absl::OkStatus();
  size_ += piece.size;
  pieces_.push_back(std::move(piece));
  return absl::OkStatus();
}

absl::Status TextFiles::Read(uint64_t offset, std::span<uint8_t> out) const {
  if (out.empty()) return absl::OkStatus();
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                [](uint64_t at, const Piece& later) { return at < later.begin; }) -
               1;
  for (; !out.empty(); ++piece) {
    const uint64_t at = offset - piece->begin;
    const size_t part = std::min<uint64_t>(out.size(), piece->size - at);
    PSGD_RETURN_IF_ERROR(ReadPiece(*piece, at, out.first(part)));
    offset += part;
    out = out.subspan(part);
  }
  return absl::OkStatus();
}

absl::Status TextFiles::ReadPiece(const Piece& piece, uint64_t offset, std::span<uint8_t> out) {
  if (!piece.unpacked.empty()) {
    std::memcpy(out.data(), piece.unpacked.data() + offset, out.size());
    return absl::OkStatus();
  }
  if (piece.file) return piece.file->Read(offset, out);
  PSGD_ASSIGN_OR_RETURN(const RangeFile file, RangeFile::Open(piece.path));
  return file.Read(offset, out);
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, uint64_t most) {
  PSGD_ASSIGN_OR_RETURN(const auto file, TextFiles::Open({path}, most));
  std::string text(file->size(), '\0');
  PSGD_RETURN_IF_ERROR(file->Read(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  if (!absl::StripAsciiWhitespace(text).empty()) return text;
  return InvalidArgumentError(path, ": the file has no text; remove it");
}

}  // namespace psgd
