#include "data/tar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/data/picture_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class TarTest : public testing::Test {
 protected:
  // Returns "NAME=DATA" for each member, then the error if there is one.
  std::vector<std::string> Members(const std::string& archive) {
    WriteFile(folder_.File("a.tar"), archive);
    const auto file = RangeFile::Open(folder_.File("a.tar"));
    EXPECT_TRUE(file.ok()) << file.status();
    TarReader reader(&*file);
    std::vector<std::string> members;
    while (true) {
      const auto member = reader.Next();
      if (!member.ok()) {
        EXPECT_TRUE(absl::IsDataLoss(member.status())) << member.status();
        members.emplace_back(member.status().message());
        return members;
      }
      if (!*member) return members;
      std::vector<uint8_t> data((*member)->size);
      EXPECT_TRUE(file->Read((*member)->offset, data).ok());
      members.push_back((*member)->name + "=" + std::string(data.begin(), data.end()));
      // A reader may start at any member, and then reads the same members.
      const auto again = TarReader(&*file, (*member)->begin).Next();
      EXPECT_TRUE(again.ok() && *again);
      EXPECT_EQ((*again)->name, (*member)->name);
      EXPECT_EQ((*again)->offset, (*member)->offset);
    }
  }

  std::string Error(const std::string& archive) { return Members(archive).back(); }

  ScratchFolder folder_;
};

TEST_F(TarTest, FilesInTheirOrder) {
  EXPECT_THAT(
      Members(TarFile("a/b.txt", "one") + TarFile("folder/", "", '5') + TarFile("empty", "") +
              TarFile("link", "", '2') + TarFile("c", std::string(512, 'x')) + TarEnd()),
      ElementsAre("a/b.txt=one", "empty=", "c=" + std::string(512, 'x')));
  EXPECT_THAT(Members(TarEnd()), ElementsAre());
}

TEST_F(TarTest, LongNames) {
  const std::string name(300, 'n');
  EXPECT_THAT(Members(TarFile("././@LongLink", name + '\0', 'L') + TarFile("short", "1") +
                      TarFile("next", "2") + TarEnd()),
              ElementsAre(name + "=1", "next=2"));
  EXPECT_THAT(Members(TarFile("pax", "30 mtime=1700000000.123456789\n16 path=p/q.jpg\n", 'x') +
                      TarFile("short", "1") + TarEnd()),
              ElementsAre("p/q.jpg=1"));
  std::string header = TarHeader("tail", 1);
  header.replace(345, 4, "head");
  SealTarHeader(&header);
  EXPECT_THAT(Members(header + TarPadded("1") + TarEnd()), ElementsAre("head/tail=1"));
}

TEST_F(TarTest, SizesOfPaxAndGnu) {
  EXPECT_THAT(
      Members(TarFile("pax", "9 size=3\n", 'x') + TarHeader("a", 0) + TarPadded("one") + TarEnd()),
      ElementsAre("a=one"));
  std::string header = TarHeader("big", 0);
  header.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\3", 12));
  SealTarHeader(&header);
  EXPECT_THAT(Members(header + TarPadded("one") + TarEnd()), ElementsAre("big=one"));
}

TEST_F(TarTest, TruncatedAnywhereIsAnError) {
  const std::string whole = TarFile("a", "data") + TarFile("b", std::string(700, 'b')) + TarEnd();
  const size_t needed = whole.size() - 512;  // one block of zeros ends an archive
  for (size_t block = 0; block < needed; block += 512) {
    for (const size_t size : {block, block + 1, block + 511}) {
      EXPECT_THAT(Error(whole.substr(0, size)), HasSubstr("a.tar")) << size;
    }
  }
  EXPECT_THAT(Error(TarFile("a", "data")), AllOf(HasSubstr("byte 1024"), HasSubstr("truncated")));
}

TEST_F(TarTest, SizesThatOverflow) {
  for (const std::string& size :
       {std::string("\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 12),
        std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xfe\x00", 12),
        std::string("\x80\1\0\0\0\0\0\0\0\0\0\0", 12), std::string(12, '\xff'),
        std::string(12, '7'), std::string("12z45678901\0", 12)}) {
    std::string header = TarHeader("a", 0);
    header.replace(124, 12, size);
    SealTarHeader(&header);
    EXPECT_THAT(Error(header + TarPadded("data") + TarEnd()),
                AllOf(HasSubstr("a.tar"), HasSubstr("byte 0"), HasSubstr("damaged")));
  }
  EXPECT_THAT(
      Error(TarFile("pax", "29 size=18446744073709551615\n", 'x') + TarFile("a", "1") + TarEnd()),
      HasSubstr("announces 18446744073709551615 bytes"));
  EXPECT_THAT(Error(TarHeader("n", 1 << 20, 'L') + std::string(1 << 20, 'n') + TarEnd()),
              HasSubstr("a name of 1048576 bytes"));
}

TEST_F(TarTest, DamageIsAnError) {
  std::string flipped = TarFile("a", "data") + TarEnd();
  flipped[3] ^= 1;
  EXPECT_THAT(Error(flipped), HasSubstr("wrong checksum"));
  EXPECT_THAT(Error(std::string(2048, 'q')), HasSubstr("no tar archive"));
  for (const char* records :
       {"5 x\n", "99 path=x\n", "path=x\n", "7 path=x\n", "0 \n", "-3 a=b\n", "10 size=x\n"}) {
    EXPECT_THAT(Error(TarFile("pax", records, 'x') + TarFile("a", "1") + TarEnd()),
                HasSubstr("pax records"))
        << records;
  }
  EXPECT_THAT(Error(TarFile("s", "", 'S') + TarEnd()), HasSubstr("sparse"));
}

// With any bytes, reading ends, and members lie within the file.
TEST_F(TarTest, EveryByteChanged) {
  const std::string whole = TarFile("././@LongLink", std::string(120, 'n'), 'L') +
                            TarFile("a", "data") + TarFile("pax", "9 size=3\n", 'x') +
                            TarFile("b", "one") + TarEnd();
  for (size_t i = 0; i < whole.size(); i += 7) {
    for (const char value : {'\0', '\x80', '7'}) {
      std::string damaged = whole;
      damaged[i] = value;
      Members(damaged);
    }
  }
}

}  // namespace
}  // namespace psgd
