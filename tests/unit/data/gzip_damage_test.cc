// Every format that unpacks gzip refuses files that were cut or changed, wherever the damage is,
// although the rest still looks like samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/data/scratch.h"
#include "tests/unit/data/sequence_sets.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

struct Format {
  const char* name;
  const char* more;  // of the config
  std::string text;
};

std::string Repeated(int times, const std::function<std::string(int)>& line) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line(i);
  return text;
}

std::vector<Format> Formats() {
  const auto number = [](int i) { return std::to_string(i); };
  return {
      {"LIBSVM", "",
       Repeated(2000,
                [&](int i) {
                  return std::string(i % 3 == 0 ? "+1" : "-1") + " 1:" + number(i * 7919 % 1000) +
                         " 5:" + number(i * 104729 % 997) + "\n";
                })},
      {"CRITEO", "table { features: 1000 }",
       Repeated(2000,
                [&](int i) {
                  std::string line = number(i % 2);
                  for (int field = 0; field < 39; ++field) line += "\t" + number(i * field % 83);
                  return line + "\n";
                })},
      {"RATINGS", "ratings { negatives: 1 test_negatives: 2 }",
       Repeated(2000,
                [&](int i) {
                  return number(i % 50) + "::" + number(i * 31 % 701) + "::3::" + number(i) + "\n";
                })},
      {"TEXT", "",
       Repeated(2000, [&](int i) { return number(i * 7919) + " and " + number(i * 31) + "\n"; })},
      {"TRANSLATION", "",
       Repeated(2000,
                [&](int i) { return "w" + number(i * 7919) + "\tv" + number(i * 31) + "\n"; })},
  };
}

// Opens the file as `format` says. Returns the error, which names the file; the user can fix it.
std::string OpenError(const Format& format, const std::string& path) {
  const auto sets = OpenFormat(format.name, path, std::string("batch: 1 ") + format.more);
  if (sets.ok()) return "";
  EXPECT_TRUE(absl::IsInvalidArgument(sets.status())) << sets.status();
  EXPECT_THAT(std::string(sets.status().message()), HasSubstr(path));
  return std::string(sets.status().message());
}

TEST(GzipDamage, AFileThatEndsEarlyIsRefusedWhereverItEnds) {
  const ScratchFolder folder;
  for (const Format& format : Formats()) {
    const std::string whole = Gzip(format.text), path = folder.File("samples.gz");
    WriteFile(path, whole);
    EXPECT_EQ(OpenError(format, path), "") << format.name;
    const size_t size = whole.size();
    // Cuts in the header, in the data, and in the checksum and length at the end.
    for (const size_t kept :
         {size_t{0}, size_t{1}, size_t{2}, size_t{5}, size_t{9}, size_t{10}, size_t{12}, size / 3,
          size / 2, size - 100, size - 9, size - 8, size - 5, size - 4, size - 1}) {
      WriteFile(path, whole.substr(0, kept));
      EXPECT_THAT(OpenError(format, path),
                  AllOf(AnyOf(HasSubstr("ends early"), HasSubstr("is empty")),
                        HasSubstr("fetch the file again")))
          << format.name << ", " << kept << " of " << size << " bytes";
    }
  }
}

TEST(GzipDamage, AChangedByteIsFound) {
  const ScratchFolder folder;
  for (const Format& format : Formats()) {
    const std::string whole = Gzip(format.text), path = folder.File("samples.gz");
    for (const size_t at : {size_t{2}, whole.size() / 2, whole.size() - 6, whole.size() - 2}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 0x55);
      WriteFile(path, changed);
      EXPECT_NE(OpenError(format, path), "") << format.name << ", byte " << at;
    }
  }
}

// `cat a.gz b.gz` makes such a file. The second member is part of the file, so its loss is damage.
TEST(GzipDamage, MembersOneBehindTheOther) {
  const ScratchFolder folder;
  const Format format = Formats()[0];
  const std::string path = folder.File("samples.gz"), one = Gzip(format.text);
  WriteFile(path, one + one);
  EXPECT_EQ(OpenError(format, path), "");
  for (const size_t kept : {one.size() + 1, one.size() + 5, 2 * one.size() - 1}) {
    WriteFile(path, (one + one).substr(0, kept));
    EXPECT_THAT(OpenError(format, path), HasSubstr("ends early")) << kept;
  }
}

}  // namespace
}  // namespace psgd
